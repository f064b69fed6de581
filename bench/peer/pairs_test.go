package peer_test

import (
	"bytes"
	"context"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/bench/peer"
)

// Every pair that is present moves files and trees, as far as it claims to, and is measured.
func TestPairs(t *testing.T) {
	pairs, absent := peer.Pairs(bin, filepath.Join(bin, "haul"))
	for _, a := range absent {
		t.Run(a.Name, func(t *testing.T) { t.Skip(a.Why) })
	}
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for _, p := range pairs {
		t.Run(p.Name, func(t *testing.T) { testPair(t, &p, me.Username) })
	}
}

func testPair(t *testing.T, p *peer.Pair, login string) {
	served, local := t.TempDir(), t.TempDir()
	keys, err := peer.NewKeys(t.TempDir(), login)
	if err != nil {
		t.Fatal(err)
	}
	want := content(300_000)
	for _, path := range []string{served + "/f", served + "/tree/d/f", local + "/f", local + "/tree/d/f"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{served + "/up-tree", local + "/got-tree"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := p.Server.Start(t.Context(), peer.Options{Dir: served, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := keys.Trust(s.Addr()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		task          peer.Task
		remote, local string
		came          string // pattern of the resulting path
	}{
		{peer.GetFile, "f", local + "/got", local + "/got"},
		{peer.PutFile, "up", local + "/f", served + "/up"},
		{peer.GetTree, "tree", local + "/got-tree", local + "/got-tree/**"},
		{peer.PutTree, "up-tree", local + "/tree", served + "/up-tree/**"},
	} {
		if !p.Client.Does(c.task) {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd, err := p.Client.Command(ctx, nil, peer.SFTPJob{Task: c.task, Server: s.Addr(), Keys: keys, Remote: p.Server.At(served, c.remote), Local: c.local})
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		u, err := peer.Metered(ctx, cmd)
		if err != nil {
			t.Errorf("%s: %v: %s; the server said: %s", c.task, err, &said, s.Log())
			continue
		}
		if u.Wall <= 0 || u.CPU <= 0 {
			t.Errorf("%s cost %+v", c.task, u)
		}
		path := c.came
		if dir, ok := cutTree(path); ok {
			path = find(t, dir, "f")
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes have come, %v, other than the %d sent", c.task, len(got), err, len(want))
		}
	}
}

// cutTree returns the directory of a pattern that matches everything below it.
func cutTree(pattern string) (string, bool) {
	dir, last := filepath.Split(pattern)
	return dir, last == "**"
}

// find returns the file with a name anywhere below a directory.
func find(t *testing.T, dir, name string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() == name {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
