//! Counts with each kind of handle, and checks what was counted: on Linux in a file, elsewhere
//! for the program alone.

use std::time::Duration;

use mmv_writer::{Counter, Family, Gauge, Histogram, Labels, Metrics, Registry};

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Route {
    path: &'static str,
}

#[derive(Metrics)]
struct Shop {
    orders: Counter,
    queue: Gauge,
    requests: Family<Route, Counter>,
    #[metric(unit = "us")]
    latency: Family<Route, Histogram>,
}

fn main() -> Result<(), mmv_writer::Error> {
    let registry = Registry::new("everywhere")?;
    let shop = Shop::register(&registry)?;
    shop.orders.add(3);
    shop.queue.set(2.5);
    for path in ["/", "/cart", "/"] {
        shop.requests.get(&Route { path }).inc();
        shop.latency.get(&Route { path }).record_duration(Duration::from_millis(2));
        shop.latency.get(&Route { path }).time(|| ());
    }
    let series = shop.requests.scoped(&Route { path: "/once" });
    series.inc();
    drop(series);
    assert_eq!(shop.orders.value(), 3);
    assert_eq!(shop.queue.value().to_bits(), 2.5_f64.to_bits());
    assert_eq!(shop.requests.get(&Route { path: "/" }).value(), 2);
    assert_eq!(shop.latency.get(&Route { path: "/cart" }).count(), 2);
    assert_eq!(registry.is_published(), cfg!(target_os = "linux"));
    Ok(())
}
