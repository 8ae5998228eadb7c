/* The one function of this library of Windows that Rust's standard library needs, for wine 8, which lacks it. */
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) { return RtlGenRandom(bytes, (ULONG)length); }
