package shares

import (
	"fmt"
	"net/netip"
	"testing"
)

// fill lets a source take as many as it can get, and returns how many it got.
func fill(t *Table, s Source, b Bound) (n int) {
	for t.Take(s, 1, b) {
		n++
	}
	return n
}

// All addresses that one machine can have are one source.
func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":        "192.0.2.1",
		"::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8::1":      "2001:db8::",
		"2001:db8:0:1::2":  "2001:db8:0:1::",
		"fe80::1%eth0":     "fe80::1", // the hosts of a link have the same first 64 bits
		"fe80::2":          "fe80::2",
	} {
		if got := SourceOf("", netip.MustParseAddr(addr)); got != (Source{From: netip.MustParseAddr(want)}) {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if got := SourceOf("", netip.Addr{}); got != (Source{}) {
		t.Errorf("without an address: %v", got)
	}
	if got := SourceOf("u", netip.MustParseAddr("192.0.2.1")); got != (Source{User: "u"}) {
		t.Errorf("a user: %v", got)
	}
}

// One source gets the fraction that its bound says, and further sources always get some.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		bound Bound
		want  []int
	}{
		{Bound{1024, 1}, []int{512, 256, 128, 64}},
		{Bound{8192, 7}, []int{7168, 896, 112, 14}},
		{Bound{8, 7}, []int{7, 1, 0}},
		{Bound{2, 7}, []int{1, 1, 0}},
		{Bound{1, 7}, []int{1, 0}},
		{Bound{10, 7}, []int{8, 1, 1, 0}},
	} {
		var table Table
		for i, want := range c.want {
			s := Source{User: fmt.Sprint(i)}
			if got := fill(&table, s, c.bound); got != want {
				t.Errorf("%+v: source %d gets %d, want %d", c.bound, i, got, want)
			}
		}
		for i := range c.want {
			s := Source{User: fmt.Sprint(i)}
			table.Give(s, table.of[s])
		}
		if table.Count() != 0 || len(table.of) != 0 {
			t.Errorf("%+v: %d are left, of %v", c.bound, table.n, table.of)
		}
	}
}

// Several are taken at a time or not at all. An unknown source may have all.
func TestSharesOfUnknown(t *testing.T) {
	var table Table
	table.Give(Source{User: "a"}, 0)
	b := Bound{100, 1}
	if table.Take(Source{User: "a"}, 101, b) || !table.Take(Source{User: "a"}, 40, b) || table.Take(Source{User: "a"}, 20, b) {
		t.Error("a known source")
	}
	if !table.Take(Source{}, 60, b) || table.Take(Source{}, 1, b) || table.Take(Source{User: "b"}, 1, b) {
		t.Error("an unknown source")
	}
	table.Give(Source{}, 60)
	table.Give(Source{User: "a"}, 40)
	if fill(&table, Source{}, b) != 100 {
		t.Error("what was given back is not free")
	}
}

func TestSourceOf(t *testing.T) {
	for _, c := range []struct{ user, from, want string }{
		{"", "192.0.2.1", "192.0.2.1"}, {"", "::ffff:192.0.2.1", "192.0.2.1"}, {"", "2001:db8::1:2:3:4", "2001:db8::"},
		{"alice", "192.0.2.1", "alice"},
	} {
		s := SourceOf(c.user, netip.MustParseAddr(c.from))
		got := s.User
		if c.user == "" {
			got += s.From.String()
		}
		if got != c.want {
			t.Errorf("%q from %s is %q", c.user, c.from, got)
		}
	}
	if s := SourceOf("", netip.Addr{}); s != (Source{}) {
		t.Errorf("an invalid address: %v", s)
	}
}
