package store_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

func TestLayers(t *testing.T) {
	t.Run("of one", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) store.Store { return store.Layers(store.Mem(0)) })
	})
	t.Run("of two", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			_, d := tempDir(t)
			return store.Layers(d, store.Mem(0))
		})
	})
	t.Run("not listed", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) store.Store {
			l := store.Layers(store.Mem(0), noLister{store.Mem(0)})
			if store.CapabilitiesOf(l).ReadDir != nil {
				t.Error("it lists directories, though not all stores do")
			}
			return l
		})
	})
}

// A noLister is a store without ReadDir.
type noLister struct{ store.Store }

// memWith returns a store of files whose content is their name and a word.
func memWith(t testing.TB, word string, names ...string) store.Tree {
	t.Helper()
	m := store.Mem(0)
	for _, name := range names {
		if err := upload(t, m, name, name+" "+word, store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func wantContent(t testing.TB, st store.Store, name, want string) {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v, want %q", name, b, err, want)
	}
	if fi, err := st.Stat(t.Context(), name); err != nil || fi.Size() != int64(len(want)) {
		t.Errorf("Stat of %s: %v, want size %d", name, err, len(want))
	}
}

func wantNames(t testing.TB, st store.Store, dir string, want ...string) {
	t.Helper()
	entries, err := store.CapabilitiesOf(st).ReadDir(t.Context(), dir)
	if err != nil {
		t.Errorf("ReadDir(%s): %v", dir, err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("ReadDir(%s) = %q, want %q", dir, got, want)
	}
}

func TestLayersOrder(t *testing.T) {
	top := memWith(t, "top", "both", "d/top")
	bottom := memWith(t, "bottom", "both", "below", "d/bottom", "e/f")
	l := store.Layers(top, store.Mem(0), bottom)
	wantContent(t, l, "both", "both top")
	wantContent(t, l, "below", "below bottom")
	wantContent(t, l, "d/bottom", "d/bottom bottom")
	wantNames(t, l, ".", "below", "both", "d", "e")
	wantNames(t, l, "d", "bottom", "top")
	wantNames(t, l, "e", "f")
	_, err := store.CapabilitiesOf(l).ReadDir(t.Context(), "both")
	wantError(t, "ReadDir of a file", err, fs.ErrNotExist)
	_, err = l.Open(t.Context(), "d")
	wantError(t, "Open of a directory", err, store.ErrNotRegular)

	if err := upload(t, l, "below", "new", store.Create{}); err != nil {
		t.Error(err)
	}
	wantContent(t, l, "below", "new")
	wantContent(t, top, "below", "new")
	wantContent(t, bottom, "below", "below bottom")
}

func TestLayersExclusive(t *testing.T) {
	bottom := memWith(t, "bottom", "taken")
	l := store.Layers(store.Mem(0), bottom)
	for _, name := range []string{"taken", "."} {
		_, err := l.Create(t.Context(), name, store.Create{Exclusive: true})
		wantError(t, "exclusive Create of a name below", err, fs.ErrExist)
	}
	if err := upload(t, l, "free", "x", store.Create{Exclusive: true}); err != nil {
		t.Error(err)
	}
	u := begin(t, l, "f", store.Create{Exclusive: true})
	if err := upload(t, bottom, "f", "theirs", store.Create{}); err != nil {
		t.Error(err)
	}
	wantError(t, "Commit to a name taken below meanwhile", u.Commit(), fs.ErrExist)
	wantError(t, "Commit again", u.Commit(), fs.ErrExist)
	wantContent(t, l, "f", "theirs")
}

// In a failing store, every name exists, but every call fails.
type failing struct {
	store.Tree
	err error
}

func (f failing) Open(context.Context, string) (store.File, error)       { return nil, f.err }
func (f failing) Stat(context.Context, string) (fs.FileInfo, error)      { return nil, f.err }
func (f failing) ReadDir(context.Context, string) ([]fs.DirEntry, error) { return nil, f.err }

// TestLayersStopAtErrors checks that a store that fails still hides the files below it.
func TestLayersStopAtErrors(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, syscall.EMFILE, syscall.EIO, fs.ErrInvalid, context.Canceled} {
		l := store.Layers(store.Mem(0), failing{store.Mem(0), err}, memWith(t, "", "f"))
		_, got := l.Open(t.Context(), "f")
		wantError(t, "Open", got, err)
		_, got = l.Stat(t.Context(), "f")
		wantError(t, "Stat", got, err)
		_, got = store.CapabilitiesOf(l).ReadDir(t.Context(), ".")
		wantError(t, "ReadDir", got, err)
		_, got = l.Create(t.Context(), "new", store.Create{Exclusive: true})
		wantError(t, "exclusive Create", got, err)
	}
}

func TestLayersOfNone(t *testing.T) {
	l := store.Layers()
	_, openErr := l.Open(t.Context(), "f")
	_, statErr := l.Stat(t.Context(), "f")
	_, listErr := store.CapabilitiesOf(l).ReadDir(t.Context(), ".")
	wantError(t, "any", errors.Join(openErr, statErr, listErr), fs.ErrNotExist)
	for _, c := range []store.Create{{}, {Exclusive: true}} {
		_, err := l.Create(t.Context(), "f", c)
		wantError(t, "Create", err, fs.ErrPermission)
	}
}

// TestLayersDoNotChange checks that the order of the stores does not change when the caller
// modifies the slice.
func TestLayersDoNotChange(t *testing.T) {
	stores := []store.Store{memWith(t, "first", "f"), memWith(t, "second", "f")}
	l := store.Layers(stores...)
	slices.Reverse(stores)
	wantContent(t, l, "f", "f first")
}
