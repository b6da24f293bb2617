/* Included before Python.h where the engine is compiled for another CPU (scripts/wheels.py): the pyconfig.h
 * of this machine's Python must be right for it. What differs between 64-bit Linux machines, such as
 * HAVE_GCC_ASM_FOR_X64, no header of an extension module uses. */
#include <pyconfig.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#define SAME(type, size) _Static_assert(sizeof(type) == (size), #type " has another size than in pyconfig.h")
SAME(short, SIZEOF_SHORT);
SAME(int, SIZEOF_INT);
SAME(long, SIZEOF_LONG);
SAME(long long, SIZEOF_LONG_LONG);
SAME(float, SIZEOF_FLOAT);
SAME(double, SIZEOF_DOUBLE);
SAME(void *, SIZEOF_VOID_P);
SAME(size_t, SIZEOF_SIZE_T);
SAME(wchar_t, SIZEOF_WCHAR_T);
SAME(off_t, SIZEOF_OFF_T);
SAME(pid_t, SIZEOF_PID_T);
SAME(time_t, SIZEOF_TIME_T);
SAME(_Bool, SIZEOF__BOOL);
#undef SAME
#if defined(WORDS_BIGENDIAN) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "only little-endian CPUs"
#endif
#ifdef Py_GIL_DISABLED
#error "not for the free-threaded Python"
#endif
