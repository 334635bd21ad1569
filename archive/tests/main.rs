//! Tests of the library through its public interface, as one program.

#[path = "shared/workload.rs"]
mod workload;

#[cfg(feature = "compression")]
mod compressed;
mod corpus;
mod crash;
mod damage;
#[cfg(feature = "compression")]
mod damaged_blocks;
mod hostile;
mod replay_model;
mod sizes;
