package store_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

func TestMemStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return store.Mem(8 << 20) })
}

// overhead is the charge for a file in addition to its bytes.
const overhead = 512

func TestMemLimit(t *testing.T) {
	const room = 10_000
	m := store.Mem(room + overhead)
	for _, c := range []store.Create{{}, {Size: 1}, {Size: room}} {
		u := begin(t, m, "f", c)
		for off := int64(0); off < room; off += 1000 {
			if _, err := u.WriteAt(make([]byte, 1000), off); err != nil {
				t.Errorf("within the limit: %v", err)
			}
		}
		_, err := u.WriteAt([]byte("x"), room)
		wantError(t, "WriteAt beyond the limit", err, store.ErrNoSpace)
		wantError(t, "Truncate beyond the limit", u.Truncate(1<<62), store.ErrNoSpace)
		_, err = m.Create(t.Context(), "g", store.Create{})
		wantError(t, "Create in a full store", err, store.ErrNoSpace)
		u.Close()
	}
	for _, size := range []int64{room + 1, 1 << 62, 1<<63 - 1} {
		_, err := m.Create(t.Context(), "f", store.Create{Size: size})
		wantError(t, "Create of more than fits", err, store.ErrNoSpace)
	}
	fill(t, m, room)
}

// fill checks that m has room for a file of exactly size bytes, and no more.
func fill(t *testing.T, m store.Tree, size int64) {
	t.Helper()
	u := begin(t, m, "fill", store.Create{Size: size})
	defer u.Close()
	if _, err := u.WriteAt([]byte("x"), size-1); err != nil {
		t.Error(err)
	}
	_, err := m.Create(t.Context(), "one more", store.Create{})
	wantError(t, "Create in a full store", err, store.ErrNoSpace)
}

// TestMemAccounts checks that everything that was charged is given back.
func TestMemAccounts(t *testing.T) {
	const limit = 100_000
	m := store.Mem(limit)
	if err := upload(t, m, "f", string(make([]byte, 10_000)), store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := m.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // files that grow, announce too much, are discarded, or are refused
		if err := upload(t, m, "f", string(make([]byte, 1000)), store.Create{Size: int64(i) * 100}); err != nil {
			t.Error(err)
		}
		begin(t, m, "g", store.Create{Size: 5000}).Close()
		late := begin(t, m, fmt.Sprint("x", i), store.Create{Exclusive: true})
		if err := upload(t, m, fmt.Sprint("x", i), "", store.Create{}); err != nil {
			t.Error(err)
		}
		wantError(t, "exclusive Commit", late.Commit(), fs.ErrExist)
	}
	named := int64(51*overhead + 1000)
	fill(t, m, limit-named-(10_000+overhead)-overhead) // the old f is still open, so it is still charged
	f.Close()
	f.Close()
	fill(t, m, limit-named-overhead)
}

func TestMemDirectories(t *testing.T) {
	m := store.Mem(0)
	if err := upload(t, m, "a/b/f", "x", store.Create{}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "a", "a/b"} {
		if fi, err := m.Stat(t.Context(), dir); err != nil || !fi.IsDir() {
			t.Errorf("Stat(%s) = %v, %v, want a directory", dir, fi, err)
		}
		_, err := m.Open(t.Context(), dir)
		wantError(t, "Open of a directory", err, store.ErrNotRegular)
		_, err = m.Create(t.Context(), dir, store.Create{})
		wantError(t, "Create of a directory", err, store.ErrNotRegular)
	}
	_, err := m.Stat(t.Context(), "a/c")
	wantError(t, "Stat", err, fs.ErrNotExist)

	u := begin(t, m, "c", store.Create{})
	if err := upload(t, m, "c/d", "x", store.Create{}); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Commit onto a directory", u.Commit(), store.ErrNotRegular)
}
