//! Load of rows of all ten methods, in calls and phases. Calls of one phase run concurrently, so
//! their order must not matter. Rows whose order matters (an origin's first url, a revision's last
//! origin) are in separate phases or in one message.

use bytes::Bytes;
use fastrand::Rng;

use crate::{
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    tests::conformance::Flavor,
};

/// Calls that run concurrently.
pub(crate) type Phase = Vec<Rows>;

/// Rows of a call that fit in one message in any range.
const SMALL: usize = 100;
/// Two origins that claim the same url concurrently; either may get it.
const CONTESTED: usize = 20;
const ODD_PATHS: [&[u8]; 16] = [
    b"",
    b".",
    b"..",
    b"/",
    b"//",
    b"a/b",
    b"\0",
    b"a\0b",
    b"\xff\xfe/\xc3",
    b"\n",
    b"tab\there",
    b"quo'te\"",
    b"\\x41",
    b"{a,NULL}",
    b" ",
    "ü/文.txt".as_bytes(),
];

/// Rows to be sent.
pub(crate) struct Load {
    pub(crate) phases: Vec<(&'static str, Phase)>,
    /// Urls that two origins claim.
    pub(crate) contested: Vec<(String, [Sha1Git; 2])>,
}

struct Maker {
    rng: Rng,
    /// Rows of each method.
    count: usize,
    flavor: Flavor,
}

/// `count` rows of each method.
pub(crate) fn load(seed: u64, count: usize, flavor: Flavor) -> Load {
    let mut maker = Maker { rng: Rng::with_seed(seed), count, flavor };
    let contested = (0..CONTESTED).map(|n| {
        let claimants = [n, n + CONTESTED].map(|n| id(9, n));
        (format!("https://contested/{n}"), claimants)
    });
    let contested: Vec<_> = contested.collect();
    let [first_origins, origins_once_more] = maker.origins(&contested);
    let [first_revisions, later_revisions] = maker.revisions();
    let entities =
        [maker.dated(Entity::Content), maker.dated(Entity::Directory), maker.locations(), first_revisions];
    let relations = Relation::ALL.map(|relation| maker.relation(relation));
    let phases = vec![
        ("origins", first_origins),
        ("origins that are known, and entities", [&entities[..], &[origins_once_more]].concat().concat()),
        ("revisions that are known", later_revisions),
        ("relations", relations.concat()),
    ];
    let mut load = Load { phases, contested };
    for (_, calls) in &mut load.phases {
        maker.rng.shuffle(calls);
    }
    load
}

/// Identifiers are spread over all ranges.
fn id(kind: u64, n: usize) -> Sha1Git {
    let mut rng = Rng::with_seed(kind << 40 | n as u64);
    let mut id = [0; 20];
    rng.fill(&mut id);
    Sha1Git(id)
}

impl Maker {
    /// Number of different identifiers, smaller than the number of rows, so that keys repeat.
    fn pool(&self, entity: Entity) -> usize {
        match entity {
            Entity::Content | Entity::Directory => self.count / 2,
            Entity::Revision => self.count / 3,
            Entity::Origin => self.count / 2,
        }
    }

    /// A stored identifier or, in `unknown_percent` of the cases, an unregistered one.
    fn end(&mut self, entity: Entity, unknown_percent: u8) -> Sha1Git {
        let pool = self.pool(entity);
        let n = match self.rng.u8(..100) {
            roll if roll < unknown_percent => pool + self.rng.usize(..1_000),
            // Some identifiers have many relations.
            roll if roll < unknown_percent + 4 => self.rng.usize(..3),
            _ => self.rng.usize(..pool),
        };
        id(entity as u64, n)
    }

    fn date(&mut self) -> Option<Date> {
        const EDGES: [i64; 7] = [0, -1, 1, (1 << 31) - 1, 1 << 31, 1 << 32, -(1 << 31)];
        match self.rng.u8(..8) {
            0 | 1 => None,
            2 => Date::from_micros(EDGES[self.rng.usize(..EDGES.len())] * 1_000_000 + self.rng.i64(-1..=1)),
            3 if self.flavor.exact_dates => Some([Date::MIN, Date::MAX][self.rng.usize(..2)]),
            _ => {
                let seconds = self.rng.i64(-(1 << 32)..1 << 33);
                Date::from_micros(seconds * 1_000_000 + self.rng.i64(0..1_000_000))
            }
        }
    }

    fn path(n: usize) -> Bytes {
        match n {
            _ if n < ODD_PATHS.len() => Bytes::from_static(ODD_PATHS[n]),
            // Of the maximum length, some incompressible.
            20 => vec![b'x'; 2_704].into(),
            21..24 => {
                let mut rng = Rng::with_seed(n as u64);
                (0..2_600).map(|_| rng.u8(..)).collect()
            }
            _ => format!("dir{}/sub{}/file-{n}.c", n % 7, n % 113).into(),
        }
    }

    fn locations(&mut self) -> Phase {
        let pool = self.paths();
        let (count, mut paths) = (self.count, (0..pool).map(Self::path).collect::<Vec<_>>());
        paths.extend((pool..count).map(|_| Self::path(self.rng.usize(..pool))));
        self.rng.shuffle(&mut paths);
        self.calls(Rows::Locations(paths))
    }

    fn paths(&self) -> usize {
        self.count * 3 / 5
    }

    fn dated(&mut self, entity: Entity) -> Phase {
        let pool = self.pool(entity);
        let mut rows: Vec<_> = (0..self.count)
            .map(|n| (id(entity as u64, if n < pool { n } else { self.rng.usize(..pool) }), self.date()))
            .collect();
        self.rng.shuffle(&mut rows);
        self.calls(if entity == Entity::Content { Rows::Contents(rows) } else { Rows::Directories(rows) })
    }

    /// First all origins, some repeated, some in one message with another url, the last of which
    /// counts. Then known origins with other urls, which do not count, and new ones with known
    /// urls.
    fn origins(&mut self, contested: &[(String, [Sha1Git; 2])]) -> [Phase; 2] {
        let pool = self.pool(Entity::Origin);
        let origin = |n| id(Entity::Origin as u64, n);
        let url = |n: usize| match n {
            0 => String::new(),
            1 => "https://ü/文?q='\"\\x".to_owned(),
            2 => "u".repeat(2_704),
            _ => format!("https://forge{}/project-{n}", n % 11),
        };
        let twice = pool / 10;
        let mut first: Phase = Vec::new();
        for chunk in (0..twice).collect::<Vec<_>>().chunks(SMALL / 2) {
            let rows =
                |word: &'static str| chunk.iter().map(move |&n| (origin(n), format!("https://{word}/{n}")));
            let last = chunk.iter().map(|&n| (origin(n), url(n)));
            first.push(Rows::Origins(rows("passed-over").chain(last).collect()));
        }
        let mut rows: Vec<_> = (twice..pool).map(|n| (origin(n), url(n))).collect();
        rows.extend((0..self.count / 10).map(|_| self.rng.usize(twice..pool)).map(|n| (origin(n), url(n))));
        self.rng.shuffle(&mut rows);
        first.extend(self.calls(Rows::Origins(rows)));
        for turn in 0..2 {
            let claims = contested.iter().map(|(url, ids)| (ids[turn], url.clone()));
            first.push(Rows::Origins(claims.collect()));
        }
        let sent: usize = first.iter().map(Rows::len).sum();
        let later = (sent..self.count).map(|n| {
            let known = self.rng.usize(..pool);
            match self.rng.u8(..3) {
                0 => (origin(known), format!("https://too-late/{n}")),
                1 => (origin(pool + 1_000 + n), url(known)),
                _ => (origin(known), url(known)),
            }
        });
        let later = later.collect();
        [first, self.calls(Rows::Origins(later))]
    }

    /// Revisions in two phases: each with one origin, registered or not, or none; then with another.
    /// All rows of a revision name the same origin within a phase. A single call may name several;
    /// the store keeps the last.
    fn revisions(&mut self) -> [Phase; 2] {
        let pool = self.pool(Entity::Revision);
        let origins = self.pool(Entity::Origin);
        let revision = |n| id(Entity::Revision as u64, n);
        let origin = |n| Some(id(Entity::Origin as u64, n));
        let unknown = |n| origin(origins + n % 1_000);
        let many = 3;
        let later = self.count / 4;
        let mut first: Vec<_> = (0..self.count - later)
            .map(|at| {
                let n = if at < pool { at } else { self.rng.usize(..pool) };
                let origin = match n % 6 {
                    0 | 1 => origin(n % origins),
                    2 => unknown(n),
                    _ => None,
                };
                let origin = origin.filter(|_| self.rng.bool());
                (revision(n), RevisionData { date: self.date(), origin })
            })
            .collect();
        self.rng.shuffle(&mut first);
        let mut calls: Phase = Vec::new();
        for n in 0..many {
            // Several messages of one queue, which keep their order.
            let origins = (0..(later / 20).max(150)).map(|_| origin(self.rng.usize(..origins)));
            let rows = origins.map(|origin| (revision(n), RevisionData { date: None, origin }));
            calls.push(Rows::Revisions(rows.collect()));
        }
        let sent: usize = calls.iter().map(Rows::len).sum();
        let rows = (sent..later).map(|_| {
            let n = self.rng.usize(many..pool);
            let origin = match n % 5 {
                0 | 1 => origin((n + 7) % origins),
                2 => unknown(n),
                _ => None,
            };
            (revision(n), RevisionData { date: self.date(), origin })
        });
        let rows = rows.collect();
        calls.extend(self.calls(Rows::Revisions(rows)));
        [self.calls(Rows::Revisions(first)), calls]
    }

    fn relation(&mut self, relation: Relation) -> Phase {
        let paths = self.paths();
        let mut rows: Vec<RelationRow> = Vec::with_capacity(self.count);
        while rows.len() < self.count {
            if !rows.is_empty() && self.rng.u8(..5) == 0 {
                rows.push(rows[self.rng.usize(..rows.len())].clone());
                continue;
            }
            let (src, dst) = (self.end(relation.source(), 3), self.end(relation.destination(), 3));
            let path = match self.rng.u8(..100) {
                _ if relation.source() == Entity::Revision => None,
                0 => None,
                1..4 => Some(format!("nowhere/{}", self.rng.u8(..)).into()),
                4..14 => Some(Self::path(self.rng.usize(..24))),
                _ => Some(Self::path(self.rng.usize(..paths))),
            };
            rows.push(RelationRow { src, dst, path });
        }
        self.calls(Rows::Relations(relation, rows))
    }

    /// Splits rows into calls of very different sizes.
    fn calls(&mut self, rows: Rows) -> Phase {
        let (mut calls, mut at) = (Vec::new(), 0);
        while at < rows.len() {
            let size = *self.rng.choice(&[1, 7, 100, 1_000, 1_000, 5_000]).expect("a size");
            let end = rows.len().min(at + size);
            calls.push(rows.part(at..end));
            at = end;
        }
        calls
    }
}
