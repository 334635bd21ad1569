//! The rules of clusters, one by one.

use pcp_types::{Semantics, Units, ValueType};

use super::*;
use crate::metadata::numbers::indom;

fn claim(file: &str, cluster: u32, items: &[(u32, &str)]) -> Claim {
    let items = items
        .iter()
        .map(|&(number, name)| {
            let item = Item {
                name: name.into(),
                value_type: ValueType::U64,
                semantics: Semantics::Counter,
                units: Units::NONE,
                indom: None,
            };
            (number, item)
        })
        .collect();
    Claim {
        file: file.into(),
        cluster,
        owner: 1000,
        items: Arc::new(items),
        indoms: Vec::new(),
        own: false,
    }
}

fn place(allocator: &mut ClusterAllocator, claim: &Claim) -> u32 {
    allocator.place(claim).unwrap().cluster
}

#[test]
fn automatic_clusters_are_lowest_unused_and_not_explicit() {
    let mut allocator = ClusterAllocator::default();
    allocator.reserve(2);
    assert_eq!(place(&mut allocator, &claim("a", 0, &[])), 1);
    assert_eq!(place(&mut allocator, &claim("b", 0, &[])), 3);
    assert_eq!(place(&mut allocator, &claim("c", 2, &[])), 2);
    allocator.release(OsStr::new("a"));
    assert_eq!(place(&mut allocator, &claim("d", 0, &[])), 4);
}

#[test]
fn file_keeps_its_cluster_across_restarts() {
    let mut allocator = ClusterAllocator::default();
    let first = place(&mut allocator, &claim("a", 0, &[(1, "mmv.a.x")]));
    place(&mut allocator, &claim("b", 0, &[]));
    allocator.release(OsStr::new("a"));
    assert_eq!(place(&mut allocator, &claim("a", 0, &[(1, "mmv.a.y")])), first);
}

#[test]
fn files_share_a_cluster_if_owner_and_common_items_agree() {
    let mut allocator = ClusterAllocator::default();
    assert_eq!(place(&mut allocator, &claim("app.1", 321, &[(1, "mmv.x")])), 321);
    let second = claim("app.2", 321, &[(1, "mmv.x"), (2, "mmv.y")]);
    assert_eq!(place(&mut allocator, &second), 321);
}

#[test]
fn item_collision_moves_later_file_and_is_reported_once() {
    let mut allocator = ClusterAllocator::default();
    place(&mut allocator, &claim("a", 321, &[(1, "mmv.a.x")]));
    let later = claim("b", 321, &[(1, "mmv.b.x")]);
    let moved = allocator.place(&later).unwrap();
    assert_eq!(moved.cluster, 1);
    assert!(matches!(moved.moved, Some(Collision::Item { cluster: 321, item: 1, .. })));
    allocator.release(OsStr::new("b"));
    let again = allocator.place(&later).unwrap();
    assert_eq!((again.cluster, again.moved), (1, None));
}

#[test]
fn another_users_file_never_joins_a_cluster() {
    let mut allocator = ClusterAllocator::default();
    place(&mut allocator, &claim("a", 321, &[]));
    let stranger = Claim { owner: 1001, ..claim("b", 321, &[]) };
    let placement = allocator.place(&stranger).unwrap();
    assert!(matches!(
        placement.moved,
        Some(Collision::Owner { holder_owner: 1000, owner: 1001, .. })
    ));
}

#[test]
fn moved_file_stays_when_its_wanted_cluster_is_free() {
    let mut allocator = ClusterAllocator::default();
    place(&mut allocator, &claim("a", 321, &[(1, "mmv.a.x")]));
    let later = claim("b", 321, &[(1, "mmv.b.x")]);
    assert_eq!(place(&mut allocator, &later), 1);
    allocator.release(OsStr::new("a"));
    assert_eq!(place(&mut allocator, &later), 1);
}

#[test]
fn numbers_that_are_no_cluster_are_replaced() {
    let mut allocator = ClusterAllocator::default();
    for (cluster, expected) in [(4096, 1), (u32::MAX, 2)] {
        let placement = allocator.place(&claim(&cluster.to_string(), cluster, &[])).unwrap();
        assert_eq!(placement.cluster, expected);
        assert_eq!(placement.moved, Some(Collision::OutOfRange { cluster }));
    }
}

#[test]
fn the_agents_own_file_takes_no_cluster_that_a_file_can_have() {
    let own = Claim { own: true, ..claim("agent", 2047, &[(1, "mmv.agent.a")]) };
    let mut allocator = ClusterAllocator::default();
    let placed = allocator.place(&own).unwrap();
    assert_eq!((placed.cluster, placed.moved), (0, None));
    assert_eq!(placed.renumbered, RenumberedItems::from([(1, 101)]));
    for (file, cluster) in [("first", 1), ("second", 2)] {
        assert_eq!(place(&mut allocator, &claim(file, 0, &[])), cluster);
    }
    for cluster in [2047, 4095] {
        let file = claim(&cluster.to_string(), cluster, &[(1, "mmv.x")]);
        assert_eq!(place(&mut allocator, &file), cluster);
    }
    allocator.release(OsStr::new("agent"));
    let memory = allocator.remember(100);
    assert!(memory.clusters.iter().all(|known| known.cluster > 0), "{memory:?}");
    // A metric keeps its item in a later version of the agent, as in any file.
    let items = [(1, "mmv.agent.new"), (2, "mmv.agent.a")];
    let later = Claim { own: true, ..claim("agent", 2047, &items) };
    let placed = ClusterAllocator::restore(memory).place(&later).unwrap();
    assert_eq!(placed.renumbered[&2], 101);
    assert_ne!(placed.renumbered[&1], 101);
}

#[test]
fn earlier_state_of_the_agents_file_is_ignored() {
    let known = |file: &str, requested, cluster| FileCluster {
        file: FileName(file.into()),
        requested,
        cluster,
        seen: 7,
        owner: None,
    };
    let clusters =
        vec![known("agent", 0, 1), known("app", 0, 2), known("big", 4095, 3), known("x", 0, 0)];
    let used = vec![1, 2, 3];
    let mut allocator =
        ClusterAllocator::restore(Assignments { clusters, used, ..Assignments::default() });
    let own = Claim { own: true, ..claim("agent", 2047, &[]) };
    assert_eq!(place(&mut allocator, &own), 0);
    for (file, requested, cluster) in [("app", 0, 2), ("big", 4095, 3), ("x", 0, 4)] {
        assert_eq!(place(&mut allocator, &claim(file, requested, &[])), cluster, "{file}");
    }
}

fn place_many(allocator: &mut ClusterAllocator, owner: u32, files: usize) {
    for number in 0..files {
        place(allocator, &of(owner, &format!("f{owner}_{number}"), 0));
    }
}

fn of(owner: u32, file: &str, cluster: u32) -> Claim {
    Claim { owner, ..claim(file, cluster, &[]) }
}

#[test]
fn one_user_gets_a_half_of_the_clusters_and_others_their_own() {
    let mut allocator = ClusterAllocator::default();
    place_many(&mut allocator, 1000, SHARE);
    let more = of(1000, "more", 0);
    let share = Collision::Share { owner: 1000, limit: SHARE };
    assert_eq!(allocator.place(&more), Err(share.clone()));
    assert_eq!(allocator.place(&of(1000, "explicit", 2000)), Err(share));
    assert_eq!(place(&mut allocator, &of(1000, "above", 3000)), 3000);
    for owner in [1001, ROOT] {
        place_many(&mut allocator, owner, 10);
    }
    assert_eq!(allocator.take_displaced(), [""; 0]);
    // The user's own cluster that has had no file for the longest.
    for number in [9, 7, 8] {
        allocator.release(OsStr::new(&format!("f1000_{number}")));
    }
    assert_eq!(place(&mut allocator, &of(1000, "f1000_9", 0)), 10, "still remembered");
    assert_eq!(place(&mut allocator, &more), 8);
    assert_eq!(place(&mut allocator, &of(1000, "f1000_8", 0)), 9);
}

#[test]
fn user_with_most_clusters_gives_one_up() {
    let mut allocator = ClusterAllocator::default();
    place_many(&mut allocator, 1000, SHARE);
    place_many(&mut allocator, 1001, SHARE - 10);
    place_many(&mut allocator, 1002, 11);
    allocator.release(OsStr::new("f1000_5"));
    allocator.release(OsStr::new("f1002_5"));
    assert_eq!(place(&mut allocator, &of(1003, "a", 0)), 6, "without a file");
    assert_eq!(allocator.take_displaced(), [""; 0]);
    allocator.release(OsStr::new("f1000_6"));
    allocator.release(OsStr::new("f1000_7"));
    for (file, expected) in [("b", 7), ("c", 8), ("d", SHARE as u32)] {
        assert_eq!(place(&mut allocator, &of(1003, file, 0)), expected);
    }
    let newest = OsString::from(format!("f1000_{}", SHARE - 1));
    assert_eq!(allocator.take_displaced(), [newest]);
    assert_eq!(place(&mut allocator, &of(1002, "f1002_5", 0)), 2 * SHARE as u32 - 4, "its own");
    for number in 0..FOR_ROOT {
        place(&mut allocator, &of(ROOT, &format!("root{number}"), 0));
    }
    assert_eq!(allocator.take_displaced(), [""; 0], "a reserve is left for root");
}

#[test]
fn nobody_gets_the_cluster_of_a_program_that_restarts() {
    for cluster in [0, 321] {
        let mut allocator = ClusterAllocator::default();
        let victim = Claim { owner: 1000, ..claim("app", cluster, &[(1, "mmv.app.x")]) };
        let before = allocator.place(&victim).unwrap();
        allocator.release(OsStr::new("app"));
        let mut allocator = ClusterAllocator::restore(allocator.remember(1));
        // The same name and the same cluster, by another user.
        let squatter = Claim { owner: 1001, ..victim.clone() };
        let other = allocator.place(&squatter).unwrap();
        assert_ne!(other.cluster, before.cluster);
        let explicit = Claim { cluster: before.cluster, file: "b".into(), ..squatter };
        let moved = allocator.place(&explicit).unwrap();
        assert!(matches!(moved.moved, Some(Collision::Owner { holder: None, .. })), "{moved:?}");
        assert_eq!(allocator.place(&victim).unwrap(), before);
    }
}

#[test]
fn cluster_of_absent_user_is_released_after_a_time() {
    let day = Duration::from_secs(86_400);
    let mut allocator = ClusterAllocator::default();
    allocator.set_keep(Some(2 * day));
    place(&mut allocator, &of(1000, "a", 321));
    allocator.release(OsStr::new("a"));
    allocator.begin(day);
    assert_ne!(place(&mut allocator, &of(1001, "b", 321)), 321);
    allocator.begin(2 * day);
    assert_eq!(place(&mut allocator, &of(1001, "c", 321)), 321);
    assert_ne!(place(&mut allocator, &of(1000, "a", 321)), 321);
}

#[test]
fn root_gets_what_it_asks_for_and_others_are_moved() {
    let mut allocator = ClusterAllocator::default();
    let user = Claim { indoms: vec![2047 << 11 | 5], ..of(1000, "a", 321) };
    place(&mut allocator, &user);
    assert_eq!(place(&mut allocator, &of(ROOT, "b", 321)), 321);
    assert_eq!(allocator.take_displaced(), ["a"]);
    assert_ne!(place(&mut allocator, &user), 321);
    let root = Claim { indoms: vec![5], ..of(ROOT, "c", 2047) };
    assert_eq!(allocator.place(&root).unwrap().foreign.len(), 0);
    assert_eq!(allocator.take_displaced(), ["a"], "it has the indom of root's file");
    assert_eq!(allocator.place(&user).unwrap().foreign.len(), 1);
}

#[test]
fn large_serial_or_cluster_takes_no_instance_domain() {
    let mut allocator = ClusterAllocator::default();
    // Of cluster 321 by its own number, and of cluster 77 by a large one.
    let victim = Claim { indoms: vec![1, 77 << 11 | 9], ..of(1000, "victim", 321) };
    let numbers: Vec<InDom> =
        victim.indoms.iter().map(|serial| indom(321, *serial).unwrap()).collect();
    assert!(allocator.place(&victim).unwrap().foreign.is_empty());
    allocator.release(OsStr::new("victim"));
    let large = Claim { indoms: vec![321 << 11 | 1], ..of(1001, "large", 65) };
    let held = ForeignIndom::Held { owner: 1000 };
    let expected = BTreeMap::from([(numbers[0], held)]);
    assert_eq!(allocator.place(&large).unwrap().foreign, expected);
    // 77 | 321 is 333: there the large serial leads.
    let own = Claim { indoms: vec![9], ..of(1001, "own", 333) };
    let moved = allocator.place(&own).unwrap();
    assert!(matches!(moved.moved, Some(Collision::Indom { holder_owner: 1000, .. })), "{moved:?}");
    assert!(moved.foreign.is_empty(), "its own numbers elsewhere");
    assert!(allocator.place(&victim).unwrap().foreign.is_empty());
    let same_user = Claim { owner: 1000, file: "other".into(), ..large };
    assert!(allocator.place(&same_user).unwrap().foreign.is_empty(), "as with pmdammv");
}

#[test]
fn automatic_clusters_avoid_instance_domains_of_others() {
    let mut allocator = ClusterAllocator::default();
    let aliases: Vec<u32> = (1..=5).map(|cluster| cluster << 11 | 1).collect();
    let attacker = Claim { indoms: aliases, ..of(1001, "attacker", 4095) };
    assert!(allocator.place(&attacker).unwrap().foreign.is_empty());
    let victim = Claim { indoms: vec![1], ..of(1000, "victim", 0) };
    let placed = allocator.place(&victim).unwrap();
    assert!(placed.cluster > 0 && placed.foreign.is_empty(), "{placed:?}");
    let number = indom(placed.cluster, 1).unwrap();
    assert!(attacker.indoms.iter().all(|serial| indom(4095, *serial) != Some(number)));
}

#[test]
fn what_is_remembered_gives_the_same_clusters_in_another_run() {
    let mut first = ClusterAllocator::default();
    first.reserve(2);
    for (file, cluster) in [("b", 0), ("c", 0), ("x", 500), ("y", 500)] {
        let items: &[(u32, &str)] = if file == "y" { &[(1, "other")] } else { &[(1, "mmv")] };
        place(&mut first, &claim(file, cluster, items));
    }
    first.release(OsStr::new("c"));
    let memory = first.remember(1_000);
    let mut second = ClusterAllocator::restore(memory.clone());
    let again = second.remember(2_000);
    assert_eq!((again.clusters, again.used), (memory.clusters, memory.used), "nothing is held");
    assert_eq!(place(&mut second, &claim("a", 0, &[])), 2, "it was never given to a file");
    assert_eq!(place(&mut second, &claim("c", 0, &[])), 3);
    assert_eq!(place(&mut second, &claim("b", 0, &[])), 1);
    let moved = second.place(&claim("y", 500, &[(1, "other")])).unwrap();
    assert_eq!((moved.cluster, moved.moved), (4, None));
}

#[test]
fn files_with_explicit_clusters_are_not_remembered() {
    let mut allocator = ClusterAllocator::default();
    for process in 0..100 {
        let file = format!("app.{process}");
        place(&mut allocator, &claim(&file, 321, &[]));
        allocator.release(OsStr::new(&file));
    }
    assert_eq!(allocator.remember(0).clusters, []);
}

#[test]
fn a_metric_keeps_its_pmid_over_restarts_of_program_and_agent() {
    let mut first = ClusterAllocator::default();
    place(&mut first, &claim("app", 0, &[(1, "mmv.app.a"), (2, "mmv.app.b")]));
    first.release(OsStr::new("app"));
    let rebuilt = claim("app", 0, &[(1, "mmv.app.new"), (2, "mmv.app.a")]);
    let expected = RenumberedItems::from([(1, 3), (2, 1)]);
    assert_eq!(first.place(&rebuilt).unwrap().renumbered, expected);
    let mut second = ClusterAllocator::restore(first.remember(1_000));
    assert_eq!(second.place(&rebuilt).unwrap().renumbered, expected);
    second.release(OsStr::new("app"));
    second.remember(2_000);
    assert!(second.is_older(2_001));
    second.forget(2_001);
    assert_eq!(second.place(&rebuilt).unwrap().renumbered, RenumberedItems::new());
}

#[test]
fn shared_metrics_go_with_the_last_file() {
    let mut allocator = ClusterAllocator::default();
    let one = claim("app.1", 321, &[(1, "mmv.x"), (2, "mmv.y")]);
    let other = claim("app.2", 321, &[(1, "mmv.x")]);
    place(&mut allocator, &one);
    place(&mut allocator, &other);
    allocator.release(OsStr::new("app.1"));
    allocator.remember(100);
    allocator.forget(101);
    let later = allocator.place(&claim("app.3", 321, &[(1, "mmv.x"), (2, "mmv.z")])).unwrap();
    assert_eq!((later.cluster, later.renumbered), (321, RenumberedItems::new()));
    let later = allocator.place(&claim("app.4", 321, &[(3, "mmv.x")])).unwrap();
    assert_eq!(later.renumbered, RenumberedItems::from([(3, 1)]));
}

#[test]
fn cluster_without_archive_is_free_again() {
    let mut allocator = ClusterAllocator::default();
    for file in ["a", "b", "c"] {
        place(&mut allocator, &claim(file, 0, &[]));
    }
    allocator.remember(100);
    allocator.release(OsStr::new("a"));
    allocator.release(OsStr::new("b"));
    allocator.remember(200);
    place(&mut allocator, &claim("b", 0, &[]));
    allocator.release(OsStr::new("b"));
    // "b" was seen when it came again, and "c" is there.
    allocator.remember(300);
    allocator.forget(250);
    let files: Vec<_> = allocator.remember(300).clusters;
    let names: Vec<_> = files.iter().map(|known| known.file.0.to_str().unwrap()).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(place(&mut allocator, &claim("d", 0, &[])), 1);
}

fn thousand(prefix: &str) -> Arc<BTreeMap<u32, Item>> {
    let names: Vec<String> = (0..1_000).map(|item| format!("mmv.{prefix}.{item}")).collect();
    let items: Vec<(u32, &str)> = (0..).zip(names.iter().map(String::as_str)).collect();
    claim("", 0, &items).items
}

#[test]
fn ever_new_metrics_fill_no_memory_and_cost_no_other_user() {
    let mut allocator = ClusterAllocator::default();
    let moved = [(2, "mmv.shop.orders"), (1, "mmv.shop.new")];
    let shop = Claim { owner: 7, ..claim("shop", 300, &[(1, "mmv.shop.orders")]) };
    allocator.place(&shop).unwrap();
    allocator.release(OsStr::new("shop"));
    for round in 0..200_u32 {
        let cluster = 400 + round % 150;
        let items = thousand(&format!("r{round}"));
        let file = Claim { items, ..claim("flood", cluster, &[]) };
        let _ = allocator.place(&file);
        allocator.release(OsStr::new("flood"));
    }
    let gone: usize = allocator.remember(0).items.values().map(|items| items.gone()).sum();
    let most = ABSENT_NAMES.each as usize;
    assert!((most - 1_000..=most + 1).contains(&gone), "{gone}");
    // The last names are known, and the other user's.
    let items = thousand("r199");
    let last = allocator.place(&Claim { items, ..claim("flood", 449, &[]) }).unwrap();
    assert_eq!(last.renumbered, RenumberedItems::new());
    let shop = Claim { owner: 7, ..claim("shop", 300, &moved) };
    let placed = allocator.place(&shop).unwrap();
    assert_eq!(placed.renumbered, RenumberedItems::from([(1, 2), (2, 1)]));
}

#[test]
fn users_with_new_metrics_all_the_time_have_a_limit_together() {
    let mut allocator = ClusterAllocator::default();
    for user in 0..100_u32 {
        let items = thousand(&format!("u{user}"));
        let file = Claim { items, owner: 100 + user, ..claim("flood", 400 + user, &[]) };
        allocator.place(&file).unwrap();
        allocator.release(OsStr::new("flood"));
    }
    let gone: usize = allocator.remember(0).items.values().map(|items| items.gone()).sum();
    let most = ABSENT_NAMES.all as usize;
    assert!((most / 2..=most).contains(&gone), "{gone}");
}
