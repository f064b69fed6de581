package storetest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

// testAccess opens existing and missing files, with each valid combination of the fields of Access.
func testAccess(t *testing.T, tr store.Tree) {
	for bits := range 1 << 6 {
		a := store.Access{
			Read: bits&1 != 0, Write: bits&2 != 0, Append: bits&4 != 0,
			Create: bits&8 != 0, Exclusive: bits&16 != 0, Truncate: bits&32 != 0,
		}
		writes := a.Write || a.Append
		if !a.Read && !writes || !writes && (a.Create || a.Exclusive || a.Truncate) || a.Exclusive && !a.Create {
			continue
		}
		t.Run(fmt.Sprintf("%+v", a), func(t *testing.T) { testOneAccess(t, tr, a) })
	}
}

func testOneAccess(t *testing.T, tr store.Tree, a store.Access) {
	Put(t, tr, "old", "content")
	if err := tr.Remove(t.Context(), "new"); err != nil {
		wantError(t, "Remove", err, fs.ErrNotExist)
	}
	before := Snapshot(t, tr)
	h, err := tr.OpenFile(t.Context(), "old", a)
	if a.Exclusive {
		wantError(t, "OpenFile of a name that exists", err, fs.ErrExist)
	} else if err != nil {
		t.Fatal(err)
	} else {
		want := []byte("content")
		if a.Truncate {
			want = nil
		}
		wantContent(t, tr, "old", want)
		testRights(t, tr, h, "old", a, want)
	}
	h, err = tr.OpenFile(t.Context(), "new", a)
	if !a.Create {
		wantError(t, "OpenFile of nothing", err, fs.ErrNotExist)
	} else if err != nil {
		t.Fatal(err)
	} else {
		wantContent(t, tr, "new", nil)
		testRights(t, tr, h, "new", a, nil)
	}
	if !a.Write && !a.Append {
		wantUnchanged(t, tr, "reading", before)
	}
}

// testRights checks that a handle allows exactly what its Access says, and closes the handle.
func testRights(t *testing.T, tr store.Tree, h store.Handle, name string, a store.Access, had []byte) {
	t.Helper()
	want := had
	if a.Write || a.Append {
		write(t, h, "abc", 0)
		want = append([]byte("abc"), had[min(3, len(had)):]...)
		if a.Append {
			want = append(bytes.Clone(had), "abc"...)
		}
		wantContent(t, tr, name, want) // the write is visible at once
		want = want[:2]
		wantNil(t, "Truncate", h.Truncate(2))
		wantContent(t, tr, name, want)
	} else {
		_, err := h.WriteAt([]byte("abc"), 0)
		wantError(t, "WriteAt", err, fs.ErrPermission)
		wantError(t, "Truncate", h.Truncate(0), fs.ErrPermission)
		wantError(t, "SetAttr", h.SetAttr(store.Attr{Size: new(int64)}), fs.ErrPermission)
	}
	if a.Read {
		wantHandle(t, h, want)
	} else {
		_, err := h.ReadAt(make([]byte, 1), 0)
		wantError(t, "ReadAt", err, fs.ErrPermission)
	}
	if fi, err := h.Stat(); err != nil || fi.Size() != int64(len(want)) || fi.Name() != name || !fi.Mode().IsRegular() {
		t.Errorf("Stat of the handle = %v, %v", fi, err)
	}
	wantNil(t, "Sync", h.Sync())
	closeAll(t, h)
	wantContent(t, tr, name, want)
}

func testBadAccess(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	before := Snapshot(t, tr)
	for _, a := range []store.Access{
		{}, {Create: true}, {Read: true, Create: true}, {Read: true, Truncate: true}, {Truncate: true},
		{Read: true, Exclusive: true}, {Write: true, Exclusive: true}, {Read: true, Create: true, Exclusive: true},
	} {
		for _, name := range []string{"f", "new"} {
			_, err := tr.OpenFile(t.Context(), name, a)
			wantError(t, fmt.Sprintf("OpenFile(%s, %+v)", name, a), err, fs.ErrInvalid)
		}
	}
	wantUnchanged(t, tr, "all that", before)
}

func testOpenNotRegular(t *testing.T, tr store.Tree) {
	mkdir(t, tr, "d")
	Put(t, tr, "f", "content")
	before := Snapshot(t, tr)
	for _, a := range []store.Access{
		{Read: true}, {Write: true}, {Read: true, Append: true}, {Write: true, Create: true, Truncate: true},
	} {
		for name, want := range map[string]error{
			"d": store.ErrNotRegular, ".": store.ErrNotRegular,
			"missing/f": fs.ErrNotExist, "f/g": fs.ErrNotExist, "d/missing/f": fs.ErrNotExist,
		} {
			_, err := tr.OpenFile(t.Context(), name, a)
			wantError(t, fmt.Sprintf("OpenFile(%s, %+v)", name, a), err, want)
		}
	}
	wantUnchanged(t, tr, "all that", before)
	if runtime.GOOS == "windows" {
		return
	}
	for _, perm := range []fs.FileMode{0, 0o600, 0o666, 0o400, fs.ModeSetuid | 0o755} {
		name := fmt.Sprintf("p%o", perm.Perm())
		h := openFile(t, tr, name, store.Access{Read: true, Write: true, Create: true, Perm: perm})
		write(t, h, "content", 0)
		wantHandle(t, h, []byte("content"))
		closeAll(t, h)
		if perm = perm.Perm(); perm == 0 {
			perm = 0o644
		}
		wantMode(t, tr, name, perm)
	}
}

func testInPlace(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "0123456789")
	h := openFile(t, tr, "f", store.Access{Read: true, Write: true})
	other := openFile(t, tr, "f", store.Access{Read: true, Write: true})
	write(t, h, "abc", 2)
	wantHandle(t, other, []byte("01abc56789"))
	write(t, other, "XY", 15) // the gap is filled with zeros
	wantHandle(t, h, []byte("01abc56789\x00\x00\x00\x00\x00XY"))
	wantContent(t, tr, "f", []byte("01abc56789\x00\x00\x00\x00\x00XY"))
	wantNil(t, "Truncate", h.Truncate(4))
	wantNil(t, "Truncate", h.Truncate(6)) // if the file grows again, the part that was cut off must read as zeros
	wantHandle(t, other, []byte("01ab\x00\x00"))
	closeAll(t, h)
	write(t, other, "z", 5)
	closeAll(t, other)
	wantContent(t, tr, "f", []byte("01ab\x00z"))
	for _, tt := range []struct {
		off  int64
		len  int
		want string
		err  error
	}{{0, 2, "01", nil}, {4, 10, "\x00z", io.EOF}, {6, 1, "", io.EOF}, {1 << 40, 1, "", io.EOF}} {
		h := openFile(t, tr, "f", store.Access{Read: true})
		buf := make([]byte, tt.len)
		if n, err := h.ReadAt(buf, tt.off); string(buf[:n]) != tt.want || err != tt.err {
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v, want %q, %v", tt.len, tt.off, buf[:n], err, tt.want, tt.err)
		}
		closeAll(t, h)
	}
}

// testInPlaceAtRandom applies the same random operations to a file and to a slice, and compares the
// results. The seed is fixed, so each run makes the same operations.
func testInPlaceAtRandom(t *testing.T, tr store.Tree) {
	// With `most` bytes, a store may keep a file in a different way than a small one.
	const rounds, ops, most = 4, 80, 600_000
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range rounds {
		name := fmt.Sprint("f", round%2) // the file exists already from the third round on
		a := store.Access{Read: true, Write: true, Create: true, Truncate: true}
		h := openFile(t, tr, name, a)
		var model []byte
		extend := func(size int) {
			if size > len(model) {
				model = append(model, make([]byte, size-len(model))...)
			}
		}
		for op := range ops {
			off := rnd.IntN(most >> rnd.IntN(10))
			switch rnd.IntN(12) {
			case 0:
				wantNil(t, "Truncate", h.Truncate(int64(off)))
				extend(off)
				model = model[:off:off]
			case 1:
				closeAll(t, h)
				h = openFile(t, tr, name, store.Access{Read: true, Write: true})
			case 2:
				f := open(t, tr, name) // a reader must not disturb the writers
				defer f.Close()
			default:
				p := pattern(1+rnd.IntN(most/20), byte(op))
				write(t, h, p, int64(off))
				extend(off + len(p))
				copy(model[off:], p)
			}
		}
		wantHandle(t, h, model)
		closeAll(t, h)
		wantContent(t, tr, name, model)
	}
}

// testAppend checks that no data is lost when several goroutines append to a file at the same time.
func testAppend(t *testing.T, tr store.Tree) {
	const writers, each, size = 4, 50, 100
	Put(t, tr, "log", "start")
	var wg sync.WaitGroup
	for w := range writers {
		h := openFile(t, tr, "log", store.Access{Append: true})
		wg.Go(func() {
			for range each {
				write(t, h, bytes.Repeat([]byte{'a' + byte(w)}, size), 0)
			}
		})
	}
	wg.Wait()
	f := open(t, tr, "log")
	got := readAll(t, f)
	closeAll(t, f)
	if len(got) != len("start")+writers*each*size {
		t.Fatalf("the file has %d bytes", len(got))
	}
	for p := got[len("start"):]; len(p) > 0; p = p[size:] {
		if bytes.Count(p[:size], p[:1]) != size {
			t.Fatalf("a piece that was never written: %.40q", p)
		}
	}
}

func testWriteInPlaceConcurrently(t *testing.T, tr store.Tree) {
	const piece = 5000
	data := pattern(64*piece, 3)
	h := openFile(t, tr, "f", store.Access{Read: true, Write: true, Create: true})
	var wg sync.WaitGroup
	for off := 0; off < len(data); off += piece {
		wg.Go(func() {
			write(t, h, data[off:off+piece], int64(off))
			got := make([]byte, piece)
			if _, err := h.ReadAt(got, int64(off)); err != nil && err != io.EOF || !bytes.Equal(got, data[off:off+piece]) {
				t.Errorf("at %d the handle reads other bytes than it wrote, %v", off, err)
			}
		})
	}
	wg.Wait()
	closeAll(t, h)
	wantContent(t, tr, "f", data)
}

// testHandleOutlivesName removes, replaces and renames open files. Their handles must still work.
func testHandleOutlivesName(t *testing.T, tr store.Tree) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps the names of open files")
	}
	take := map[string]func(){
		"removed":  func() { wantNil(t, "Remove", tr.Remove(t.Context(), "removed")) },
		"renamed":  func() { wantNil(t, "Rename", tr.Rename(t.Context(), "renamed", "x", false)) },
		"replaced": func() { Put(t, tr, "replaced", "by an upload") },
	}
	for name, take := range take {
		Put(t, tr, name, "content")
		h := openFile(t, tr, name, store.Access{Read: true, Write: true})
		f := open(t, tr, name)
		take()
		write(t, h, "CON", 0)
		wantHandle(t, h, []byte("CONtent"))
		wantNil(t, "SetAttr", h.SetAttr(store.Attr{Mode: new(fs.FileMode(0o600))}))
		wantNil(t, "Sync", h.Sync())
		closeAll(t, h, f)
	}
	wantContent(t, tr, "x", []byte("CONtent"))
	wantContent(t, tr, "replaced", []byte("by an upload"))
	wantMode(t, tr, "replaced", 0o644)
	wantMissing(t, tr, "removed")
}

func testHandleErrors(t *testing.T, tr store.Tree) {
	h := openFile(t, tr, "f", store.Access{Read: true, Write: true, Create: true})
	_, err := h.WriteAt([]byte("x"), -1)
	wantError(t, "WriteAt(-1)", err, fs.ErrInvalid)
	_, err = h.WriteAt([]byte("xy"), 1<<63-2)
	wantError(t, "WriteAt beyond all sizes", err, fs.ErrInvalid)
	_, err = h.ReadAt(make([]byte, 1), -1)
	wantError(t, "ReadAt(-1)", err, fs.ErrInvalid)
	wantError(t, "Truncate(-1)", h.Truncate(-1), fs.ErrInvalid)
	wantError(t, "SetAttr", h.SetAttr(store.Attr{Size: new(int64(-1))}), fs.ErrInvalid)
	wantHandle(t, h, nil)
	closeAll(t, h)
	for what, err := range map[string]error{
		"Close": h.Close(), "Sync": h.Sync(), "Truncate": h.Truncate(0), "SetAttr": h.SetAttr(store.Attr{Size: new(int64)}),
		"WriteAt": second(h.WriteAt([]byte("x"), 0)), "ReadAt": second(h.ReadAt(make([]byte, 1), 0)), "Stat": second(h.Stat()),
	} {
		wantError(t, what+" after Close", err, fs.ErrClosed)
	}
}

func second[T any](_ T, err error) error { return err }

// testOpenedBefore opens a file for reading, and then in place for writing. The reader may get the
// old or the new content. When everything is written, the size that its Stat returns must be the
// size that it reads.
func testOpenedBefore(t *testing.T, tr store.Tree) {
	const size = 300_000
	Put(t, tr, "f", string(pattern(size, 1)))
	f := open(t, tr, "f")
	h := openFile(t, tr, "f", store.Access{Write: true})
	write(t, h, pattern(2*size, 2), 0)
	closeAll(t, h)
	got := readAll(t, f)
	if !bytes.Equal(got, pattern(size, 1)) && !bytes.Equal(got, pattern(2*size, 2)) {
		t.Errorf("it reads %d bytes that were never written", len(got))
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != int64(len(got)) {
		t.Errorf("Stat = %v, %v, and it reads %d bytes", fi, err, len(got))
	}
	closeAll(t, f)
	wantContent(t, tr, "f", pattern(2*size, 2))
	Put(t, tr, "f", "uploaded")
	wantContent(t, tr, "f", []byte("uploaded"))
}
