//! The functions of `pyrmq.spark.Native`.

use crate::border;
use crate::failure::Failure;
use jni::errors::{Error, ErrorPolicy};
use jni::objects::{JByteArray, JClass, JLongArray, JThrowable, JValue};
use jni::sys::jlong;
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use std::any::Any;

/// What can go wrong within one call.
#[derive(Debug)]
enum Wrong {
    Engine(Failure),
    Java(Error),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Wrong::Engine(failure)
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Wrong::Java(error)
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Engine(failure) => f.write_str(&failure.message),
            Wrong::Java(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Wrong {}

/// Every error and panic becomes a ScanException; what Java threw meanwhile stays.
struct Throw;

impl<T: Default> ErrorPolicy<T, Wrong> for Throw {
    type Captures<'local: 'method, 'method> = ();

    fn on_error<'local: 'method, 'method>(
        env: &mut Env<'local>,
        _: &mut (),
        wrong: Wrong,
    ) -> jni::errors::Result<T> {
        let failure = match wrong {
            Wrong::Engine(failure) => failure,
            Wrong::Java(_) if env.exception_check() => return Ok(T::default()),
            Wrong::Java(error) => Failure::misuse(format!("a call of Java failed: {error}")),
        };
        throw(env, &failure).map(|()| T::default())
    }

    fn on_panic<'local: 'method, 'method>(
        env: &mut Env<'local>,
        _: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        throw(env, &Failure::panic(&*payload)).map(|()| T::default())
    }
}

/// Throws `ScanException(kind, message, hint)`, out of the class loader of the caller.
fn throw(env: &mut Env<'_>, failure: &Failure) -> jni::errors::Result<()> {
    let class = env.find_class(jni_str!("pyrmq/spark/ScanException"))?;
    let [kind, message, hint] =
        [failure.kind, &failure.message, &failure.hint].map(|text| env.new_string(text));
    let (kind, message, hint) = (kind?, message?, hint?);
    let made = env.new_object(
        &class,
        jni_sig!("(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;)V"),
        &[
            JValue::Object(&kind),
            JValue::Object(&message),
            JValue::Object(&hint),
        ],
    )?;
    let thrown = env.cast_local::<JThrowable>(made)?;
    match env.throw(&thrown) {
        Err(Error::JavaException) => Ok(()), // it is under way
        other => other,
    }
}

/// One call of Java: reads its argument, asks, and makes what Java gets.
macro_rules! native {
    ($name:ident($($arg:ident: $type:ty),*) -> $out:ty, $body:expr) => {
        /// Of `pyrmq.spark.Native`.
        #[unsafe(no_mangle)]
        pub extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            _class: JClass<'local>,
            $($arg: $type),*
        ) -> $out {
            let body: fn(&mut Env<'local>, $($type),*) -> Result<$out, Wrong> = $body;
            env.with_env(|env| body(env, $($arg),*)).resolve::<Throw>()
        }
    };
}

native!(Java_pyrmq_spark_Native_call0(json: JByteArray<'local>) -> JByteArray<'local>, |env, json| {
    let answer = border::call(&taken(env, &json)?)?;
    Ok(env.byte_array_from_slice(&answer)?)
});

native!(Java_pyrmq_spark_Native_open0(task: JByteArray<'local>) -> jlong, |env, task| {
    Ok(border::open(&taken(env, &task)?)?)
});

native!(Java_pyrmq_spark_Native_next0(handle: jlong) -> JLongArray<'local>, |env, handle| {
    given(env, border::next(handle)?)
});

native!(Java_pyrmq_spark_Native_nextWithin0(handle: jlong, millis: jlong) -> JLongArray<'local>, |env, handle, millis| {
    given(env, border::next_within(handle, millis)?)
});

native!(Java_pyrmq_spark_Native_release0(handle: jlong) -> (), |_, handle| {
    Ok(border::release(handle)?)
});

native!(Java_pyrmq_spark_Native_stats0(handle: jlong) -> JByteArray<'local>, |env, handle| {
    let stats = border::stats(handle)?;
    Ok(env.byte_array_from_slice(&stats)?)
});

native!(Java_pyrmq_spark_Native_close0(handle: jlong) -> (), |_, handle| {
    Ok(border::close(handle)?)
});

/// The bytes of an argument.
fn taken(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>, Wrong> {
    if array.is_null() {
        return Err(Failure::misuse("null where bytes are needed").into());
    }
    let len = array.len(env)?;
    if len > border::MAX_REQUEST {
        return Err(border::too_long(len).into());
    }
    Ok(env.convert_byte_array(array)?)
}

/// A batch as Java gets it: null for none.
fn given<'local>(
    env: &mut Env<'local>,
    numbers: Option<Vec<i64>>,
) -> Result<JLongArray<'local>, Wrong> {
    let Some(numbers) = numbers else {
        return Ok(JLongArray::null());
    };
    let out = JLongArray::new(env, numbers.len())?;
    out.set_region(env, 0, &numbers)?;
    Ok(out)
}
