//! What one connection has used: requests, messages stored, messages got.
//!
//! The session counts what it answers by itself, with plain additions on its own memory. Whoever makes
//! the broker's history takes the counts every few seconds. Requests that become commands are counted as
//! well; the messages that the broker in Python answers with are counted there.

/// Producer groups of one connection that are told apart. What others send counts for none of them.
pub const MAX_GROUPS: usize = 8;
/// Bytes of the longest name of a group; one with a longer name counts as none.
const MAX_NAME: usize = 255;
pub const POP_MESSAGE: i32 = 200_050;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub sends: u64,
    /// Pulls and pops.
    pub pulls: u64,
    pub acks: u64,
    /// Ends of transactions.
    pub ends: u64,
    pub others: u64,
}

/// What one producer group has stored by this connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfGroup {
    pub name: Box<[u8]>,
    /// Requests that were stored.
    pub sends: u64,
    pub messages: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Used {
    pub requests: Requests,
    /// Got by pulls that the session has answered: messages, and bytes of their records.
    pub messages_out: u64,
    pub bytes_out: u64,
    /// What was stored for this connection, by producer group.
    pub groups: Vec<OfGroup>,
    /// What was stored for none of them.
    others: OfGroup,
    /// The group of the last message, and which of its fields names it.
    last: usize,
    pub field: usize,
}

impl Used {
    /// A send of a producer group is stored.
    #[inline]
    pub fn stored(&mut self, group: &[u8], messages: u32, bytes: u64) {
        let group = match self.groups.get_mut(self.last) {
            Some(last) if is_same(&last.name, group) => last,
            _ => self.find(group),
        };
        group.sends += 1;
        group.messages += u64::from(messages);
        group.bytes += bytes;
    }

    /// The row of a group that is not that of the message before; that of none, if it gets no row.
    #[cold]
    fn find(&mut self, name: &[u8]) -> &mut OfGroup {
        let is_name = (1..=MAX_NAME).contains(&name.len());
        let at = match self.groups.iter().position(|g| *g.name == *name) {
            Some(at) => at,
            None if !is_name || self.groups.len() >= MAX_GROUPS => return &mut self.others,
            None => {
                self.groups.push(OfGroup {
                    name: name.into(),
                    ..OfGroup::default()
                });
                self.groups.len() - 1
            }
        };
        self.last = at;
        &mut self.groups[at]
    }

    /// Messages stored for this connection, and bytes of their records.
    pub fn stored_in_all(&self) -> (u64, u64) {
        let rows = self.groups.iter().chain([&self.others]);
        rows.fold((0, 0), |(messages, bytes), row| {
            (messages + row.messages, bytes + row.bytes)
        })
    }

    /// A pull is answered with messages.
    #[inline]
    pub fn pulled(&mut self, messages: usize, bytes: usize) {
        self.messages_out += messages as u64;
        self.bytes_out += bytes as u64;
    }

    /// What was counted since this was called last.
    pub fn take(&mut self) -> Used {
        // A group that has sent nothing meanwhile gives its place to others.
        self.groups.retain(|g| g.sends > 0);
        let again = self.groups.iter().map(|g| OfGroup {
            name: g.name.clone(),
            ..OfGroup::default()
        });
        let new = Used {
            groups: again.collect(),
            ..Used::default()
        };
        std::mem::replace(self, new)
    }
}

/// Whether two names are the same, without a call for the lengths that names of groups have.
#[inline]
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        8..=16 => ends::<8>(a) == ends::<8>(b),
        17..=32 => ends::<16>(a) == ends::<16>(b),
        _ => a == b,
    }
}

/// The first and the last `N` bytes.
#[inline]
fn ends<const N: usize>(name: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (name.first_chunk(), name.last_chunk())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(used: &Used) -> Vec<(&[u8], u64, u64, u64)> {
        let row = |g: &'_ OfGroup| (g.sends, g.messages, g.bytes);
        let with_name = |g| {
            let (sends, messages, bytes) = row(g);
            (&*g.name, sends, messages, bytes)
        };
        used.groups.iter().map(with_name).collect()
    }

    #[test]
    fn groups_are_told_apart_until_they_are_taken() {
        let mut used = Used::default();
        used.stored(b"g1", 1, 100);
        used.stored(b"g2", 32, 500);
        used.stored(b"g1", 1, 101);
        used.pulled(7, 70);
        let taken = used.take();
        assert_eq!(taken.stored_in_all(), (34, 701));
        assert_eq!((taken.messages_out, taken.bytes_out), (7, 70));
        let expected: [(&[u8], u64, u64, u64); 2] = [(b"g1", 2, 2, 201), (b"g2", 1, 32, 500)];
        assert_eq!(rows(&taken), expected);
        used.stored(b"g2", 1, 9);
        let taken = used.take();
        assert_eq!((taken.stored_in_all(), taken.messages_out), ((1, 9), 0));
        assert_eq!(rows(&taken), [(&b"g2"[..], 1, 1, 9)]);
        assert_eq!(rows(&used.take()), []);
    }

    #[test]
    fn groups_beyond_the_bound_have_no_row_until_others_are_silent() {
        let mut used = Used::default();
        for n in 0..2 * MAX_GROUPS {
            used.stored(format!("g{n}").as_bytes(), 1, 10);
        }
        used.stored(b"", 1, 10);
        used.stored(&[b'x'; MAX_NAME + 1], 1, 10);
        let taken = used.take();
        assert_eq!(taken.groups.len(), MAX_GROUPS);
        let messages = 2 * MAX_GROUPS as u64 + 2;
        assert_eq!(taken.stored_in_all(), (messages, 10 * messages));
        used.take();
        used.stored(&[b'x'; MAX_NAME], 1, 10);
        assert_eq!(used.take().groups.len(), 1);
    }

    #[test]
    fn names_that_differ_in_one_byte_are_not_the_same() {
        for len in 0..70 {
            let name: Vec<u8> = (0..len).map(|n| b'a' + n % 26).collect();
            assert!(is_same(&name, &name.clone()));
            assert!(!is_same(&name, &[&name[..], b"x"].concat()));
            for at in 0..len as usize {
                let mut other = name.clone();
                other[at] ^= 1;
                assert!(!is_same(&name, &other), "{len} {at}");
            }
        }
    }
}
