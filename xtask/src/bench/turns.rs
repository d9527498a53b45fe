//! What the suite measures: each work with all programs that do it, which are measured one right after the other.

use std::path::{Path, PathBuf};

use super::claims::{BARE_SLED, BARE_WRITE, FOLDING_SLED};
use super::contender::{Contender, PLANTD};
use super::load::Script;
use super::measurement::{CONNECTIONS, Work};
use super::options::IdOrder;
use super::suite_options::{Part, SuiteOptions};

/// How many connections at once, and in which order ids come, in the creates that are compared.
const CREATES: [(u32, IdOrder); 6] = [
    (1, IdOrder::Ascending),
    (1, IdOrder::Random),
    (CONNECTIONS, IdOrder::Ascending),
    (CONNECTIONS, IdOrder::Random),
    (256, IdOrder::Ascending),
    (256, IdOrder::Random),
];

/// The programs that were found or built.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) plantd: Contender,
    pub(super) ceiling: Contender,
    pub(super) peers: Vec<Contender>,
    pub(super) bare_sled: Option<PathBuf>,
    /// The load generator with a fixed rate.
    pub(super) oha: Option<PathBuf>,
}

/// One measurement, as it is repeated in each round.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) work: Work,
    pub(super) program: &'static str,
    pub(super) task: Task<'a>,
}

#[derive(Debug)]
pub(super) enum Task<'a> {
    /// wrk sends as much as the program takes.
    Load {
        contender: &'a Contender,
        script: Script,
        connections: u32,
        ids: IdOrder,
    },
    /// Creates come at a fixed rate, however late the answers are.
    OpenLoop {
        contender: &'a Contender,
        oha: &'a Path,
        rate_per_s: u64,
    },
    /// An import, and an export behind it.
    ThereAndBack {
        plantd: &'a Contender,
    },
    BareSled {
        executable: &'a Path,
        way: &'static str,
    },
    BareWrites,
}

/// What is compared, and so measured one right after the other.
pub(super) type Turn<'a> = Vec<Entry<'a>>;

impl Programs {
    /// In the order in which they stand in tables.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let servers = self.ours().into_iter().chain(&self.peers);
        servers
            .map(|contender| contender.name)
            .chain([BARE_SLED, FOLDING_SLED, BARE_WRITE])
            .collect()
    }

    fn ours(&self) -> [&Contender; 2] {
        [&self.plantd, &self.ceiling]
    }

    /// What a round measures, in its order.
    pub(super) fn turns(&self, options: &SuiteOptions) -> Vec<Turn<'_>> {
        let creates =
            CREATES.iter().map(|(connections, ids)| self.creates(*connections, *ids, options));
        let others = [
            (Part::Read, Work::Read, Script::Read),
            (Part::List, Work::List, Script::List),
            (Part::Mix, Work::Mix, Script::Mix),
        ];
        let others =
            others.into_iter().filter(|(part, ..)| options.has(*part)).map(|(_, work, script)| {
                self.loads(&self.peers, work, script, CONNECTIONS, IdOrder::Random)
            });
        let imports = self.bare_sled.as_deref().map(|executable| {
            let entry = |program, task| Entry { work: Work::Import, program, task };
            vec![
                entry(PLANTD, Task::ThereAndBack { plantd: &self.plantd }),
                entry(BARE_SLED, Task::BareSled { executable, way: "one-by-one" }),
                entry(FOLDING_SLED, Task::BareSled { executable, way: "folding" }),
            ]
        });
        creates.chain(others).chain(imports).filter(|turn| !turn.is_empty()).collect()
    }

    /// The latencies at a rate that both have room for.
    pub(super) fn half_load<'a>(&'a self, oha: &'a Path, rate_per_s: u64) -> Turn<'a> {
        let entry = |contender: &'a Contender| Entry {
            work: Work::CreateAtHalfLoad,
            program: contender.name,
            task: Task::OpenLoop { contender, oha, rate_per_s },
        };
        self.ours().map(entry).into()
    }

    fn creates(&self, connections: u32, ids: IdOrder, options: &SuiteOptions) -> Turn<'_> {
        let work = Work::Create { connections, ids };
        let is_asked_for = options.has(Part::Create);
        let is_single = options.has(Part::Single) && work == Work::create(1);
        // It says which rate half load is.
        let is_for_latency = options.has(Part::Latency) && work == Work::create(CONNECTIONS);
        if !(is_asked_for || is_single || is_for_latency) {
            return Vec::new();
        }
        let has_peers = is_asked_for && work == Work::create(CONNECTIONS);
        let peers: &[Contender] = if has_peers { &self.peers } else { &[] };
        let mut turn = self.loads(peers, work, Script::Create, connections, ids);
        if is_single {
            turn.push(Entry { work, program: BARE_WRITE, task: Task::BareWrites });
        }
        turn
    }

    fn loads<'a>(
        &'a self,
        peers: &'a [Contender],
        work: Work,
        script: Script,
        connections: u32,
        ids: IdOrder,
    ) -> Turn<'a> {
        let entry = |contender: &'a Contender| Entry {
            work,
            program: contender.name,
            task: Task::Load { contender, script, connections, ids },
        };
        self.ours().into_iter().chain(peers).map(entry).collect()
    }
}

/// All of `items`, beginning with another one in each round: who comes first meets a cooler machine and an
/// emptier disk queue.
pub(super) fn in_order_of_round<T>(
    items: &[T],
    round: u32,
) -> anyhow::Result<impl Iterator<Item = &T>> {
    let first = usize::try_from(round)? % items.len().max(1);
    Ok(items[first..].iter().chain(&items[..first]))
}

#[cfg(test)]
mod tests {
    use super::super::suite_options;
    use super::*;

    fn programs() -> Programs {
        let contender =
            |name| Contender { name, executable: PathBuf::new(), arguments: Vec::new() };
        Programs {
            plantd: contender(PLANTD),
            ceiling: contender("ceiling"),
            peers: vec![contender("peer")],
            bare_sled: None,
            oha: None,
        }
    }

    /// The works of the turns, with their programs.
    fn measured(only: &str) -> Vec<(Work, Vec<&'static str>)> {
        let options = suite_options::parse(&["--only".to_owned(), only.to_owned()], "").unwrap();
        let programs = programs();
        let turns = programs.turns(&options);
        let names = |turn: &Turn<'_>| turn.iter().map(|entry| entry.program).collect();
        turns.iter().map(|turn| (turn[0].work, names(turn))).collect()
    }

    #[test]
    fn each_round_begins_with_another_program() {
        let order = |round| in_order_of_round(&["a", "b", "c"], round).unwrap().copied().collect();
        let orders: [String; 4] = [0, 1, 2, 3].map(order);
        assert_eq!(orders, ["abc", "bca", "cab", "abc"]);
    }

    #[test]
    fn peers_create_at_64_connections_with_ascending_ids_alone() {
        let measured = measured("create");
        assert_eq!(measured.len(), CREATES.len());
        for (work, programs) in measured {
            let has_peer = programs.contains(&"peer");
            assert_eq!(has_peer, work == Work::create(CONNECTIONS), "{work}");
        }
    }

    #[test]
    fn a_part_brings_what_its_claims_are_made_of() {
        let ours = vec![PLANTD, "ceiling"];
        let single = vec![PLANTD, "ceiling", BARE_WRITE];
        assert_eq!(measured("single"), [(Work::create(1), single)]);
        assert_eq!(measured("latency"), [(Work::create(CONNECTIONS), ours)]);
        assert_eq!(measured("list"), [(Work::List, vec![PLANTD, "ceiling", "peer"])]);
    }
}
