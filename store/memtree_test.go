package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
	"github.com/haul-project/haul/store/storetest"
)

// TestMemTreeAccounts checks that everything that was charged is given back.
func TestMemTreeAccounts(t *testing.T) {
	m := store.Mem(0)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int) {
		t.Helper()
		if got := store.Used(m); got != int64(n) {
			t.Errorf("%d bytes charged, want %d", got, n)
		}
	}
	must(m.Mkdir(ctx, "d", 0))
	want(overhead)
	must(m.Symlink(ctx, "nowhere", "l"))
	want(2*overhead + len("nowhere"))
	must(upload(t, m, "d/f", "content", store.Create{}))
	want(3*overhead + len("nowhere") + len("content"))
	must(m.Link(ctx, "d/f", "g"))
	must(m.Link(ctx, "l", "l2"))
	want(5*overhead + len("nowhere") + len("content"))
	e, err := m.OpenDir(ctx, ".")
	must(err)
	want(5*overhead + len("nowhere") + len("content") + 4*16)
	must(e.Close())

	must(m.Rename(ctx, "l2", "g", true)) // removes one name of a file, and one of a link
	want(4*overhead + len("nowhere") + len("content"))
	must(m.Remove(ctx, "g"))
	must(m.Remove(ctx, "l"))
	want(2*overhead + len("content"))
	h, err := m.OpenFile(ctx, "d/f", store.Access{Read: true, Write: true})
	must(err)
	must(m.Remove(ctx, "d/f"))
	_, err = h.WriteAt(make([]byte, 1000), 1000)
	must(err)
	must(h.Close())
	want(overhead)
	must(m.RemoveDir(ctx, "d"))
	want(0)
}

// TestMemTreeAccountsAtRandom makes random calls, removes everything, and checks that nothing is
// charged.
func TestMemTreeAccountsAtRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6)) // a fixed seed, so that each run is the same
	m := store.Mem(200_000)
	ctx := t.Context()
	names := []string{"a", "b", "c", "a/b", "a/c", "b/a", "a/b/c"}
	for range 5000 {
		from, to := names[rnd.IntN(len(names))], names[rnd.IntN(len(names))]
		switch rnd.IntN(10) {
		case 0:
			_ = m.Mkdir(ctx, to, 0)
		case 1:
			_ = m.Symlink(ctx, from, to)
		case 2:
			_ = m.Link(ctx, from, to)
		case 3:
			_ = m.Rename(ctx, from, to, rnd.IntN(2) == 0)
		case 4:
			_ = m.Remove(ctx, to)
		case 5:
			_ = m.RemoveDir(ctx, to)
		case 6:
			_ = upload(t, m, to, strings.Repeat("x", rnd.IntN(20_000)), store.Create{Exclusive: rnd.IntN(2) == 0})
		case 7:
			if f, err := m.Open(ctx, from); err == nil {
				defer f.Close() // some readers keep the content while others write
			}
		default:
			h, err := m.OpenFile(ctx, to, store.Access{Write: true, Create: true, Truncate: rnd.IntN(3) == 0})
			if err == nil {
				_, _ = h.WriteAt(make([]byte, rnd.IntN(5000)), rnd.Int64N(20_000))
				_ = h.Truncate(rnd.Int64N(10_000))
				_ = h.Close()
			}
		}
		if used := store.Used(m); used < 0 || used > 200_000 {
			t.Fatalf("%d bytes charged", used)
		}
	}
	t.Cleanup(func() { // after all handles are closed
		removeAll(t, m, ".")
		if used := store.Used(m); used != 0 {
			t.Errorf("%d bytes charged for nothing", used)
		}
	})
}

func removeAll(t *testing.T, m store.Tree, dir string) {
	t.Helper()
	ctx := context.Background() // the test's context has ended
	entries, err := m.ReadDir(ctx, dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		name := strings.TrimPrefix(dir+"/"+e.Name(), "./")
		if e.IsDir() {
			removeAll(t, m, name)
			err = m.RemoveDir(ctx, name)
		} else {
			err = m.Remove(ctx, name)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// TestMemTreeLimit fills a store in each possible way.
func TestMemTreeLimit(t *testing.T) {
	for what, more := range map[string]func(m store.Tree, i int) error{
		"Mkdir":   func(m store.Tree, i int) error { return m.Mkdir(t.Context(), fmt.Sprint(i), 0) },
		"Symlink": func(m store.Tree, i int) error { return m.Symlink(t.Context(), "x", fmt.Sprint(i)) },
		"Link":    func(m store.Tree, i int) error { return m.Link(t.Context(), "f", fmt.Sprint(i)) },
		"OpenDir": func(m store.Tree, _ int) error { _, err := m.OpenDir(t.Context(), "."); return err },
		"OpenFile": func(m store.Tree, i int) error {
			_, err := m.OpenFile(t.Context(), fmt.Sprint(i), store.Access{Write: true, Create: true})
			return err
		},
	} {
		m := store.Mem(20 * overhead)
		if err := upload(t, m, "f", "", store.Create{}); err != nil {
			t.Fatal(err)
		}
		var err error
		for i := range 1000 {
			if err = more(m, i); err != nil {
				break
			}
		}
		wantError(t, what+" in a full store", err, store.ErrNoSpace)
	}

	m := store.Mem(20 * overhead)
	h, err := m.OpenFile(t.Context(), "f", store.Access{Read: true, Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.WriteAt(make([]byte, 19*overhead), 0); err != nil {
		t.Error(err)
	}
	_, err = h.WriteAt([]byte("x"), 19*overhead)
	wantError(t, "WriteAt beyond the limit", err, store.ErrNoSpace)
	wantError(t, "Truncate beyond the limit", h.Truncate(1<<40), store.ErrNoSpace)
	size := int64(1 << 40)
	wantError(t, "SetAttr beyond the limit", h.SetAttr(store.Attr{Size: &size}), store.ErrNoSpace)
	if s, err := m.Space(t.Context(), "."); err != nil || s.Free != 0 || s.Total != 20*overhead {
		t.Errorf("Space = %+v, %v", s, err)
	}
}

// TestMemReadersKeepContent opens for writing a file that others read. The readers keep the content
// that they opened, at the cost of a copy, which is freed when they close it.
func TestMemReadersKeepContent(t *testing.T) {
	const size = 1000
	m := store.Mem(10_000)
	if err := upload(t, m, "f", strings.Repeat("o", size), store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := m.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	h, err := m.OpenFile(t.Context(), "f", store.Access{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt([]byte(strings.Repeat("n", size)), 0); err != nil {
		t.Error(err)
	}
	h.Close()
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n != size || err != nil || strings.Trim(string(p), "o") != "" {
		t.Errorf("the reader has %d bytes %.10q, %v", n, p, err)
	}
	wantContent(t, m, "f", strings.Repeat("n", size))
	if got, want := store.Used(m), int64(2*(size+overhead)); got != want {
		t.Errorf("%d bytes charged, want %d", got, want)
	}
	f.Close()
	if got, want := store.Used(m), int64(size+overhead); got != want {
		t.Errorf("%d bytes charged, want %d", got, want)
	}
	// The file has no reader, so it is not copied.
	h, err = m.OpenFile(t.Context(), "f", store.Access{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := store.Used(m), int64(size+overhead); got != want {
		t.Errorf("%d bytes charged, want %d", got, want)
	}
	h.Close()
}

// TestMemNoOwners sets an owner in a store whose files have no owner.
func TestMemNoOwners(t *testing.T) {
	m := memWith(t, "", "f")
	uid := uint32(1)
	a := store.Attr{UID: &uid, Size: new(int64(100)), Mode: new(fs.FileMode(0o600))}
	wantError(t, "SetAttr of an owner", m.SetAttr(t.Context(), "f", a, true), errors.ErrUnsupported)
	if fi, err := m.Stat(t.Context(), "f"); err != nil || fi.Size() != 100 || fi.Mode() != 0o600 {
		t.Errorf("what is no owner is not set: %v, %v", fi, err)
	}
}

// TestMemUploadThroughLinks uploads to names that are symbolic links.
func TestMemUploadThroughLinks(t *testing.T) {
	m := memWith(t, "old", "d/f")
	for name, target := range map[string]string{
		"l": "d/f", "dir": "d", "new": "d/new", "deep": "no/such/dir/f", "climbs": "no/../../x",
	} {
		if err := m.Symlink(t.Context(), target, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"l": "d/f", "dir/f": "d/f", "new": "d/new", "deep": "no/such/dir/f"} {
		if err := upload(t, m, name, "through "+name, store.Create{}); err != nil {
			t.Error(err)
		}
		wantContent(t, m, target, "through "+name)
	}
	if fi, err := m.Lstat(t.Context(), "l"); err != nil || fi.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link itself was replaced: %v, %v", fi, err)
	}
	wantError(t, "Create through a link that climbs", upload(t, m, "climbs", "", store.Create{}), fs.ErrPermission)
	if err := m.RemoveDir(t.Context(), "no/such/dir"); err == nil {
		t.Error("removed a directory that has entries")
	}
	wantError(t, "exclusive Create of a link", upload(t, m, "l", "", store.Create{Exclusive: true}), fs.ErrExist)
}

func TestMemReadDir(t *testing.T) {
	m := memWith(t, "", "a/b/c", "a/b/d", "a/x", "f")
	wantNames(t, m, ".", "a", "f")
	wantNames(t, m, "a", "b", "x")
	wantNames(t, m, "a/b", "c", "d")
	entries, err := m.ReadDir(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if !entries[0].IsDir() || entries[1].IsDir() {
		t.Errorf("entries %v", entries)
	}
	// Replacing a file adds no entry.
	if err := upload(t, m, "a/x", "again", store.Create{}); err != nil {
		t.Error(err)
	}
	wantNames(t, m, "a", "b", "x")
	if want := int64(5*overhead+len("a/b/c a/b/d f ")) + int64(len("again")) + overhead; store.Used(m) != want {
		t.Errorf("%d bytes charged, want %d: 4 files and 2 directories", store.Used(m), want)
	}
}

func TestMemReadDirMany(t *testing.T) {
	m := store.Mem(1 << 30)
	for i := range rules.MaxEntries {
		if err := upload(t, m, fmt.Sprint("f", i), "", store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := m.ReadDir(t.Context(), "."); err != nil || len(entries) != rules.MaxEntries {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	l := store.Layers(m, memWith(t, "", "one more"))
	if _, err := store.CapabilitiesOf(l).ReadDir(t.Context(), "."); err == nil {
		t.Error("more entries than allowed in layers, and no error")
	}
	if err := upload(t, m, "one more", "", store.Create{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadDir(t.Context(), "."); err == nil {
		t.Error("more entries than allowed, and no error")
	}
}

// TestMemDirectoriesCount uploads a name that implies more directories than fit.
func TestMemDirectoriesCount(t *testing.T) {
	m := store.Mem(10 * overhead)
	if err := upload(t, m, "1/2/3/4/5/6/f", "", store.Create{}); err != nil {
		t.Fatal(err)
	}
	err := upload(t, m, "1/2/3/four/five/six/f", "", store.Create{})
	wantError(t, "Commit below new directories that do not fit", err, store.ErrNoSpace)
	_, err = m.Stat(t.Context(), "1/2/3/four")
	wantError(t, "Stat of one", err, fs.ErrNotExist)
	if err := upload(t, m, "1/2/3/four/five/f", "", store.Create{}); err != nil {
		t.Error(err)
	}
	if store.Used(m) != 10*overhead {
		t.Errorf("%d bytes charged, want all %d", store.Used(m), 10*overhead)
	}
}

func TestMemTree(t *testing.T) {
	storetest.RunTree(t, func(*testing.T) store.Tree { return store.Mem(8 << 20) })
}
