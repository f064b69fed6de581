package sftp

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

func TestListing(t *testing.T) {
	p := newTestSession(t, nil)
	p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "dir", wire.Attrs{}))
	p.put("dir/file", "12345")
	p.want(wire.OK, wire.AppendSymlink(nil, p.n(), "file", "dir/link"))
	p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "dir/sub", wire.Attrs{}))
	entries, _ := p.list("dir")
	if len(entries) != 5 || string(entries[0].Name) != "." || string(entries[1].Name) != ".." {
		t.Fatalf("listed: %d entries", len(entries))
	}
	want := map[string]wire.Mode{
		".": wire.ModeDir, "..": wire.ModeDir, "file": wire.ModeRegular, "link": wire.ModeSymlink, "sub": wire.ModeDir,
	}
	for _, e := range entries {
		name := string(e.Name)
		if e.Attrs.Mode.Type() != want[name] || !e.Attrs.Has(wire.AttrTimes|wire.AttrMode|wire.AttrSize) {
			t.Errorf("%s has %+v", name, e.Attrs)
		}
		if !strings.HasPrefix(string(e.Long), e.Attrs.Mode.String()) || !strings.HasSuffix(string(e.Long), " "+name) {
			t.Errorf("%s has the line %q", name, e.Long)
		}
		if name == "file" && e.Attrs.Size != 5 {
			t.Errorf("file has %d bytes", e.Attrs.Size)
		}
	}
	p.want(wire.NoSuchFile, wire.AppendOpendir(nil, p.n(), "none"))
	p.want(wire.NoSuchFile, wire.AppendOpendir(nil, p.n(), "dir/file"))

	// After the end of the listing, each further READDIR reports the end again.
	r := p.ask(wire.AppendOpendir(nil, p.n(), "dir/sub"))
	h := string(r.Handle)
	if r := p.ask(wire.AppendReaddir(nil, p.n(), h)); r.Names.Len() != 2 {
		t.Errorf("an empty directory has %d entries", r.Names.Len())
	}
	for range 3 {
		p.want(wire.EOF, wire.AppendReaddir(nil, p.n(), h))
	}
	p.want(wire.Failure, wire.AppendFstat(nil, p.n(), h))
	if r := p.ask(wire.AppendFstatVFS(nil, p.n(), h)); r.Type != wire.TypeExtendedReply {
		t.Errorf("fstatvfs: %v", r.Status)
	}
	p.close(h)
}

// A crowdedTree is a store with a directory of many entries, or with a directory that fails.
type crowdedTree struct {
	store.Tree
	names []string
	fail  error // returned after the last name; nil means io.EOF
}

func (m *crowdedTree) OpenDir(context.Context, string) (store.Entries, error) {
	return &crowdedEntries{m: m}, nil
}

type crowdedEntries struct {
	m *crowdedTree
	n int
}

func (e *crowdedEntries) Next(into []fs.FileInfo) (int, error) {
	if e.n == len(e.m.names) {
		if e.m.fail != nil {
			return 0, e.m.fail
		}
		return 0, io.EOF
	}
	n := 0
	for n < len(into) && e.n < len(e.m.names) && n < 1+e.n%70 {
		into[n] = crowdedInfo(e.m.names[e.n])
		n++
		e.n++
	}
	return n, nil
}

func (e *crowdedEntries) Close() error { return nil }

type crowdedInfo string

func (i crowdedInfo) Name() string       { return string(i) }
func (i crowdedInfo) Size() int64        { return 1 }
func (i crowdedInfo) Mode() fs.FileMode  { return 0o644 }
func (i crowdedInfo) ModTime() time.Time { return testTime }
func (i crowdedInfo) IsDir() bool        { return false }
func (i crowdedInfo) Sys() any           { return nil }

// For any number of entries and any length of names, each entry is listed once, in replies that
// every client accepts, and in no more replies than necessary.
func TestLargeListing(t *testing.T) {
	var names []string
	for i := range 100_000 {
		names = append(names, fmt.Sprint("file-", i))
	}
	for i := range 300 {
		names = append(names, fmt.Sprint(strings.Repeat("x", 10+i*13), i))
	}
	dropped := strings.Repeat("y", maxListedName+1)
	names = append(names, dropped, "", "last")
	many := &crowdedTree{names: names}
	p := newTestSession(t, func(_ *Server, a *Account) { many.Tree, a.Tree = a.Tree, many })
	r := p.ask(wire.AppendOpendir(nil, p.n(), "/"))
	h := string(r.Handle)
	var got []string
	for replies := 0; ; replies++ {
		packet := wire.AppendReaddir(nil, p.n(), h)
		p.send(packet)
		head := make([]byte, 4)
		if _, err := io.ReadFull(p.rw, head); err != nil {
			t.Fatal(err)
		}
		n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		if n > maxListing-4 {
			t.Fatalf("a reply of %d bytes", n)
		}
		b := append(head, make([]byte, n)...)
		if _, err := io.ReadFull(p.rw, b[4:]); err != nil {
			t.Fatal(err)
		}
		r, err := wire.ParseReply(b)
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == wire.TypeStatus {
			if r.Status != wire.EOF {
				t.Errorf("it ends by %v", r.Status)
			}
			if replies > 1000 {
				t.Errorf("%d replies", replies)
			}
			break
		}
		for e := range r.Names.All() {
			got = append(got, string(e.Name))
		}
	}
	p.close(h)
	want := append([]string{".", ".."}, names[:len(names)-3]...)
	want = append(want, "last")
	if !slices.Equal(got, want) {
		t.Errorf("%d entries came, want %d, or not in order", len(got), len(want))
	}
}

// A directory that cannot be read to its end does not look like a short one.
func TestListingFails(t *testing.T) {
	many := &crowdedTree{names: []string{"a", "b"}, fail: fs.ErrPermission}
	p := newTestSession(t, func(_ *Server, a *Account) { many.Tree, a.Tree = a.Tree, many })
	h := string(p.ask(wire.AppendOpendir(nil, p.n(), "/")).Handle)
	if r := p.ask(wire.AppendReaddir(nil, p.n(), h)); r.Names.Len() != 4 {
		t.Errorf("%d entries, %v", r.Names.Len(), r.Status)
	}
	for range 2 {
		p.want(wire.PermissionDenied, wire.AppendReaddir(nil, p.n(), h))
	}
	p.close(h)
}
