package site_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// mem returns a store of files. The content of each is prefix and its name.
func mem(t testing.TB, prefix string, names ...string) store.Tree {
	t.Helper()
	m := store.Mem(1 << 20)
	for _, name := range names {
		storetest.Put(t, m, name, prefix+name)
	}
	return m
}

func rules(t testing.TB, lines ...string) (rs []site.Rule) {
	t.Helper()
	for _, l := range lines {
		r, err := site.ParseRule(l)
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

func match(t testing.TB, s string) site.Match {
	t.Helper()
	m, err := site.ParseMatch(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mapFile(t testing.TB, text string) *remap.Rules {
	t.Helper()
	r, err := remap.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func client(peer string) site.Client {
	return site.Client{Peer: netip.MustParseAddr(peer), Local: netip.MustParseAddrPort("192.0.2.1:69")}
}

// A fakeTable is a neighbour table.
type fakeTable map[string]site.MAC

var errTable = errors.New("no table today")

func (f fakeTable) MAC(a netip.Addr) (site.MAC, bool, error) {
	if f == nil {
		return site.MAC{}, false, errTable
	}
	m, ok := f[a.String()]
	return m, ok, nil
}

// read returns the content of the file that c gets by a name, or the error.
func read(t testing.TB, s *site.Site, c site.Client, name string) string {
	t.Helper()
	f, err := s.Open(t.Context(), c, name)
	if err != nil {
		return explain(t, err)
	}
	defer f.Close()
	fi, err := s.Stat(t.Context(), c, name)
	if err != nil {
		t.Errorf("%s can be opened, but: %v", name, err)
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil || int64(len(b)) != fi.Size() {
		t.Errorf("%s: %d bytes of %d, %v", name, len(b), fi.Size(), err)
	}
	return string(b)
}

func explain(t testing.TB, err error) string {
	t.Helper()
	r, ok := errors.AsType[*site.Refusal](err)
	switch {
	case ok:
		if !errors.Is(err, fs.ErrPermission) || r.ForClient() != r.Message {
			t.Errorf("%v is no full refusal", err)
		}
		return "refused: " + r.Message
	case errors.Is(err, fs.ErrNotExist):
		return "not found"
	case errors.Is(err, fs.ErrExist):
		return "exists"
	}
	return "error: " + err.Error()
}

// upload sends a file for c and returns its final name, or the error.
func upload(t testing.TB, s *site.Site, c site.Client, name, content string) string {
	t.Helper()
	u, err := s.Create(t.Context(), c, name, store.Create{})
	if err != nil {
		return explain(t, err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		return explain(t, err)
	}
	return u.(*site.Upload).Name
}

var macA = site.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}

// noFiles is a store without files.
type noFiles struct{ store.Store }

func (noFiles) Open(_ context.Context, name string) (store.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
