//! Whose signatures are verified: access keys and the keys that their owners sign with.
//!
//! All sessions of a listener share one keyring. Its generation changes with every change of it, and
//! whenever somebody says that rights have changed (`revoke`): whatever was verified or granted before
//! counts no more.

use parking_lot::RwLock;
use pyrmq_sign::Key;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Access keys of a keyring at most.
pub const MAX_SUBJECTS: usize = 1 << 16;
/// Bytes of an access key, and of a secret key, at most.
pub const MAX_KEY: usize = 1 << 10;

/// Somebody who signs requests.
pub struct Subject {
    name: Box<str>,
    key: Key,
}

impl Subject {
    /// The access key.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Nobody, for signatures that say to be of somebody who is not there.
    pub(crate) fn nobody() -> Arc<Subject> {
        static NOBODY: LazyLock<Arc<Subject>> = LazyLock::new(|| {
            Arc::new(Subject {
                name: "".into(),
                key: Key::new(b"nobody"),
            })
        });
        NOBODY.clone()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.name).finish()
    }
}

type Subjects = FxHashMap<Box<[u8]>, Arc<Subject>>;

#[derive(Debug, Default)]
pub struct Keyring {
    subjects: RwLock<Subjects>,
    generation: AtomicU64,
}

impl Keyring {
    /// From now on these pairs of access key and secret key count, and no others. An error says what is
    /// wrong with a pair, without its secret key; nothing is changed then.
    pub fn replace<'k>(
        &self,
        pairs: impl IntoIterator<Item = (&'k str, &'k str)>,
    ) -> Result<(), String> {
        let mut subjects = Subjects::default();
        for (name, secret) in pairs {
            if name.is_empty() || name.len() > MAX_KEY {
                let bytes = name.len();
                return Err(format!("an access key has {bytes} bytes: 1 to {MAX_KEY}"));
            }
            if secret.is_empty() || secret.len() > MAX_KEY {
                let shown: String = name.chars().take(64).collect();
                return Err(format!(
                    "the secret key of {shown:?} has not 1 to {MAX_KEY} bytes"
                ));
            }
            if subjects.len() == MAX_SUBJECTS {
                return Err(format!("more than {MAX_SUBJECTS} access keys"));
            }
            let subject = Subject {
                name: name.into(),
                key: Key::new(secret.as_bytes()),
            };
            subjects.insert(name.as_bytes().into(), Arc::new(subject));
        }
        // The generation first: nobody takes a key that goes for one of the new generation.
        let mut now = self.subjects.write();
        self.revoke();
        *now = subjects;
        Ok(())
    }

    /// What was verified and granted counts no more.
    pub fn revoke(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// It is another one whenever something was revoked.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn len(&self) -> usize {
        self.subjects.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who has this access key, and the generation in which that is so.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(Arc<Subject>, u64)> {
        let subjects = self.subjects.read();
        let found = subjects.get(name)?.clone();
        Some((found, self.generation()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_another_generation() {
        let ring = Keyring::default();
        let first = ring.generation();
        ring.replace([("a", "secret")]).unwrap();
        let second = ring.generation();
        assert_ne!(first, second);
        let (subject, generation) = ring.find(b"a").unwrap();
        assert_eq!((subject.name(), generation), ("a", second));
        ring.revoke();
        assert_ne!(ring.generation(), second);
        assert_eq!(ring.len(), 1);
        ring.replace([]).unwrap();
        assert!(ring.find(b"a").is_none() && ring.is_empty());
    }

    #[test]
    fn what_cannot_be_a_key_changes_nothing() {
        let ring = Keyring::default();
        ring.replace([("a", "secret")]).unwrap();
        let before = ring.generation();
        let long = "x".repeat(MAX_KEY + 1);
        for (name, secret, what) in [
            ("", "s", "0 bytes"),
            (&long, "s", "1025 bytes"),
            ("b", "", "of \"b\""),
            ("b", &long, "of \"b\""),
        ] {
            let error = ring.replace([("c", "ok"), (name, secret)]).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(ring.generation(), before);
        assert!(ring.find(b"a").is_some() && ring.find(b"c").is_none());
        let names: Vec<String> = (0..=MAX_SUBJECTS).map(|n| n.to_string()).collect();
        let many = names.iter().map(|name| (name.as_str(), "s"));
        assert!(ring.replace(many).unwrap_err().contains("more than"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let ring = Keyring::default();
        ring.replace([("somebody", "sesame-1234")]).unwrap();
        let shown = format!("{ring:?}");
        assert!(
            shown.contains("somebody") && !shown.contains("sesame"),
            "{shown}"
        );
    }
}
