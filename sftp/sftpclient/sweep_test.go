package sftpclient

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// RemoveLeftovers removes files that are old, have the name of an upload and are readable only by
// their owner, but nothing that can be resumed.
func TestSweeps(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		hidden := func(i int, kind tempname.Kind) string {
			return tempname.New(strings.Repeat(string(rune('A'+i)), 26), kind)
		}
		day := 24 * time.Hour
		var want []string
		for i, f := range []struct {
			kind  tempname.Kind
			perm  fs.FileMode
			age   time.Duration
			stays bool
		}{
			{tempname.Upload, 0o600, 2 * day, false},
			{tempname.Upload, 0o600, day / 2, true},
			{tempname.Upload, 0o644, 2 * day, true},
			{tempname.Record, 0o600, 8 * day, false},
			{tempname.Record, 0o600, 2 * day, true},
			{".other", 0o600, 30 * day, true},
		} {
			name := hidden(i, f.kind)
			p.put(t, name, []byte("x"))
			if err := c.Chmod(t.Context(), name, f.perm); err != nil {
				t.Fatal(err)
			}
			setAge(t, c, name, f.age)
			if f.stays {
				want = append(want, name)
			}
		}
		k := keeper(t, c, "f", 500_000)
		if _, err := k.WriteAt(pattern(400_000, 1), 0); err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		setAge(t, c, k.temp, 3*day)
		want = append(want, k.temp, k.record.name)
		if err := c.Store("").(*remoteTree).removeLeftovers(t.Context(), "."); err != nil {
			t.Error(err)
		}
		wantFiles(t, p, want...)
	})
}

// fakeRuns implements Runs. The field `ended` lists the runs that have ended.
type fakeRuns struct {
	id    string
	ended []string
	left  bool
}

func (r *fakeRuns) ID() string           { return r.id }
func (r *fakeRuns) Ended(id string) bool { return slices.Contains(r.ended, id) }
func (r *fakeRuns) NoteLeftover()        { r.left = true }

// RemoveLeftovers does not wait before it removes the temporary files of a run that has ended, and
// ignores their permissions. It removes no files of other runs, and no files that can be resumed.
func TestSweepsOfRuns(t *testing.T) {
	mine, dead, other := strings.Repeat("A", 13), strings.Repeat("B", 13), strings.Repeat("C", 13)
	runs := &fakeRuns{id: mine, ended: []string{dead}}
	withFakeServer(t, Config{Runs: runs}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		var want []string
		for i, f := range []struct {
			run   string
			kind  tempname.Kind
			perm  fs.FileMode
			stays bool
		}{
			{dead, tempname.Upload, 0o600, false},
			{dead, tempname.Upload, 0o644, false},
			{dead, ".other", 0o600, true},
			{mine, tempname.Upload, 0o600, true},
			{other, tempname.Upload, 0o600, true},
		} {
			name := tempname.New(f.run+strings.Repeat(string(rune('A'+i)), 13), f.kind)
			p.put(t, name, []byte("x"))
			if err := c.Chmod(t.Context(), name, f.perm); err != nil {
				t.Fatal(err)
			}
			if f.stays {
				want = append(want, name)
			}
		}
		runs.id = dead
		k := keeper(t, c, "f", 500_000)
		if _, err := k.WriteAt(pattern(400_000, 1), 0); err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		runs.id = mine
		u, err := createUpload(t.Context(), c, "g", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if tempname.RunOf(k.temp) != dead || tempname.RunOf(u.temp) != mine {
			t.Errorf("the hidden files are %s and %s", k.temp, u.temp)
		}
		want = append(want, k.temp, k.record.name, u.temp)
		if err := c.Store("").(*remoteTree).removeLeftovers(t.Context(), "."); err != nil {
			t.Error(err)
		}
		wantFiles(t, p, want...)
	})
}

// A temporary file that cannot be removed is left for the next run.
func TestLeft(t *testing.T) {
	runs := &fakeRuns{}
	keeps := false
	withFakeServer(t, Config{Runs: runs}, func(p *fakeServer) {
		p.hook = func(_ *fakeSession, q wire.Request, reply []byte) ([]byte, bool) {
			if q.Type != wire.TypeRemove || !keeps {
				return nil, false
			}
			return wire.AppendStatus(reply, q.ID, wire.Failure, "no"), true
		}
	}, func(t *testing.T, _ *fakeServer, c *Client) {
		for _, keeps = range []bool{false, true} {
			u, err := createUpload(t.Context(), c, "f", store.Create{})
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Close(); (err != nil) != keeps || runs.left != keeps {
				t.Errorf("%v; left: %v, want %v", err, runs.left, keeps)
			}
		}
	})
}

// wantFiles compares the names in the server's directory.
func wantFiles(t *testing.T, p *fakeServer, want ...string) {
	t.Helper()
	list, err := p.tree.ReadDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func setAge(t *testing.T, c *Client, name string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	if err := c.SetAttr(t.Context(), name, store.Attr{AccessTime: then, ModTime: then}, true); err != nil {
		t.Fatal(err)
	}
}
