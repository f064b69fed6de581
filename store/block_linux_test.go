//go:build !haul_portable

package store_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// TestMemUnmaps asks the kernel whether the memory is still mapped.
func TestMemUnmaps(t *testing.T) {
	const size = 64 << 20
	m := store.Mem(4 * size)
	u := begin(t, m, "f", store.Create{Size: size})
	if _, err := u.WriteAt([]byte("x"), size-1); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := m.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := store.Memory(f)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	wantMapped := func(when string, want error) {
		t.Helper()
		vec := make([]byte, size/os.Getpagesize())
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, at, size, uintptr(unsafe.Pointer(&vec[0])))
		if want == nil && errno != 0 || want != nil && errno != want {
			t.Errorf("%s: mincore: %v, want %v", when, errno, want)
		}
	}
	wantMapped("open", nil)
	if err := upload(t, m, "f", "", store.Create{}); err != nil {
		t.Fatal(err)
	}
	wantMapped("replaced but open", nil)
	f.Close()
	wantMapped("closed", unix.ENOMEM)

	u = begin(t, m, "f", store.Create{Size: size})
	if _, err := u.WriteAt([]byte("x"), size-1); err != nil {
		t.Fatal(err)
	}
	b, _ = store.UploadMemory(u)
	at = uintptr(unsafe.Pointer(unsafe.SliceData(b[:1])))
	wantMapped("uploading", nil)
	u.Close()
	wantMapped("discarded", unix.ENOMEM)
}

// TestMemKernelRefuses makes the kernel refuse memory. The upload must fail, but the process
// must not crash, and the store must stay usable.
func TestMemKernelRefuses(t *testing.T) {
	const childEnv = "HAUL_STORE_TEST_CHILD"
	if os.Getenv(childEnv) == "" {
		limited := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		limited.Env = append(os.Environ(), childEnv+"=limit", "GORACE=atexit_sleep_ms=0")
		if out, err := limited.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	m := store.Mem(1 << 60)
	u := begin(t, m, "f", store.Create{})
	if _, err := u.WriteAt(make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	used := store.Used(m)
	const room = 256 << 20 // for the runtime
	limit := addressSpace(t) + room
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	err := u.Truncate(1 << 30)
	wantError(t, "Truncate", err, store.ErrNoSpace)
	wantError(t, "Truncate", err, unix.ENOMEM)
	_, err = u.WriteAt([]byte("x"), 1<<30)
	wantError(t, "WriteAt", err, store.ErrNoSpace)
	wantError(t, "WriteAt", err, unix.ENOMEM)
	if got := store.Used(m); got != used {
		t.Errorf("%d bytes charged after that, were %d", got, used)
	}
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
}

// addressSpace returns how many bytes of any kind this process has mapped.
func addressSpace(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}
