package sftpclient

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// A sweep removes what is old, has the name of an upload and is its owner's alone,
// but nothing that can be resumed.
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
		if err := c.Store("").(*remoteTree).SweepDir(t.Context(), "."); err != nil {
			t.Error(err)
		}
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
	})
}

func setAge(t *testing.T, c *Client, name string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	if err := c.SetAttr(t.Context(), name, store.Attr{AccessTime: then, ModTime: then}, true); err != nil {
		t.Fatal(err)
	}
}
