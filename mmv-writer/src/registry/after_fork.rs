//! A registry in a child of fork.

use super::Registry;
use crate::Error;
use crate::system::process_id;

impl Registry {
    /// Returns true if another process made the registry, of which this one is a forked child:
    /// its handles, domains and families then count for the child alone, and no reader
    /// sees them. The child does not withdraw the file.
    pub fn is_inherited(&self) -> bool {
        self.inner.process != process_id()
    }

    /// Makes a registry of a forked child, with the options of this one and a file of its own,
    /// without metrics: the child registers those that it has.
    ///
    /// A registry [of several processes](crate::RegistryBuilder::per_process) gets a file
    /// that is one more of these: `app.PID`, with the same cluster. Any other one gets
    /// the file `app_PID` for `app`, which asks for no cluster, as files with different
    /// metrics cannot share one; its metrics are `mmv.app_PID.requests` and so on.
    ///
    /// It takes no lock that another thread may have held when the process forked.
    ///
    /// ```no_run
    /// # use mmv_writer::Registry;
    /// # use mmv_writer::pcp::RegistryBuilderExt as _;
    /// # fn fork() -> u32 { 0 }
    /// # fn main() -> Result<(), mmv_writer::Error> {
    /// let registry = Registry::builder("app").cluster(321).per_process().build()?;
    /// if fork() == 0 {
    ///     let registry = registry.after_fork()?;
    ///     let requests = registry.counter("app.requests").build()?;
    ///     requests.inc();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotForked`] in the process that made the registry, and as
    /// [`RegistryBuilder::build`](crate::RegistryBuilder::build).
    pub fn after_fork(&self) -> Result<Self, Error> {
        if !self.is_inherited() {
            return Err(Error::NotForked { path: self.path().to_owned() });
        }
        Self::create(self.inner.options.for_this_process())
    }
}

#[cfg(test)]
mod tests {
    use crate::mapping::tests::in_a_fork;
    use crate::pcp::RegistryBuilderExt as _;
    use crate::test_support::{contents_of, directory, names_in, values_of};
    use crate::{Error, Registry};

    #[test]
    fn forked_child_publishes_its_own_file() {
        let directory = directory();
        let builder = Registry::builder("app").directory(directory.path()).cluster(7);
        for (builder, separator, cluster, name) in
            [(builder.clone(), '_', 0, "c"), (builder.per_process(), '.', 7, "app.c")]
        {
            let parent = builder.max_instances(5).build().unwrap();
            let count = parent.counter(name).build().unwrap();
            let before = names_in(&directory);
            assert!(in_a_fork(|| {
                let own = parent.after_fork().unwrap();
                let own_count = own.counter(name).build().unwrap();
                count.add(100);
                own_count.add(5);
                own.announce();
                let path = own.path().to_owned();
                let file = path.file_name().unwrap().to_str().unwrap().to_owned();
                let contents = contents_of(&path);
                let values = values_of(&path);
                let not_forked = matches!(own.after_fork(), Err(Error::NotForked { .. }));
                let are_apart = parent.is_inherited() && !own.is_inherited();
                drop((own, own_count));
                file == format!("app{separator}{}", std::process::id())
                    && contents.header.cluster == cluster
                    && contents.header.pid == std::process::id().cast_signed()
                    && values == [(name.to_owned(), None, 5)]
                    && not_forked
                    && are_apart
                    && !path.exists()
            }));
            assert_eq!(names_in(&directory), before);
            parent.announce();
            assert_eq!(values_of(parent.path()), [(name.to_owned(), None, 0)]);
            assert!(matches!(parent.after_fork(), Err(Error::NotForked { .. })));
        }
    }
}
