package site_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

func TestRoots(t *testing.T) {
	s := &site.Site{
		Roots: []site.Root{
			{Match: match(t, "10.1.0.0/16,2001:db8:1::/48"), Files: mem(t, "lab:", "f")},
			{Match: match(t, "52:54:00:12:34:56"), Files: mem(t, "mac:", "f")},
			{Match: match(t, "on=192.0.2.9,on=:6969,on=192.0.2.10:70"), Files: mem(t, "listener:", "f")},
			{Match: match(t, "10.2.0.0/16"), Files: mem(t, "second:", "g")},
			{Match: match(t, "10.2.0.0/15"), Files: mem(t, "wider:", "f")},
			{Match: match(t, "127.0.0.1"), Uploads: mem(t, "", "f")},
		},
		Neighbours: fakeTable{"10.9.0.1": macA, "fe80::1": macA},
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	at := func(peer, local string) site.Client {
		return site.Client{Peer: netip.MustParseAddr(peer), Local: netip.MustParseAddrPort(local)}
	}
	tests := []struct {
		c    site.Client
		want string
	}{
		{client("10.1.2.3"), "lab:f"},
		{client("::ffff:10.1.2.3"), "lab:f"},
		{client("2001:db8:1::5"), "lab:f"},
		{client("10.9.0.1"), "mac:f"},
		{client("fe80::1%eth0"), "mac:f"},
		{client("10.2.0.1"), "not found"}, // searched only in the client's root, which is the second one, and not in the wider root
		{client("10.3.0.1"), "wider:f"},
		{client("10.9.0.2"), "refused: access denied"},
		{client("2001:db8:2::5"), "refused: access denied"},
		{at("10.9.0.2", "192.0.2.9:1"), "listener:f"},
		{at("10.9.0.2", "[::ffff:192.0.2.9]:1"), "listener:f"},
		{at("10.9.0.2", "192.0.2.3:6969"), "listener:f"},
		{at("10.9.0.2", "192.0.2.10:70"), "listener:f"},
		{at("10.9.0.2", "192.0.2.10:71"), "refused: access denied"},
		{client("127.0.0.1"), "refused: only uploads are allowed"},
		{site.Client{}, "refused: access denied"},
	}
	for _, test := range tests {
		if got := read(t, s, test.c, "/f"); got != test.want {
			t.Errorf("%v: %q, want %q", test.c, got, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	s := &site.Site{Roots: []site.Root{{Files: mem(t, "", "f", "d/f")}}}
	tests := []struct{ name, want string }{
		{"f", "f"}, {"//f", "f"}, {`\d\f`, "d/f"}, {"./d/./f", "d/f"},
		{"nothing", "not found"},
		{"d", "error: open d: not a regular file"}, // the error of the store
		{"/", "refused: not a regular file"},
		{"", "refused: not a regular file"},
		{"../f", "refused: access violation"},
		{`d\..\f`, "refused: access violation"},
	}
	for _, test := range tests {
		got := read(t, s, client("10.0.0.1"), test.name)
		if got != test.want {
			t.Errorf("%q: %q, want %q", test.name, got, test.want)
		}
	}
	_, err := s.Open(t.Context(), client("10.0.0.1"), "/")
	if !errors.Is(err, store.ErrNotRegular) {
		t.Errorf("%v hides its reason", err)
	}
}

func TestMap(t *testing.T) {
	s := &site.Site{
		Roots: []site.Root{
			{Match: match(t, "10.0.0.0/8"), Files: mem(t, "", "hosts/0A000007/f", "up", "old"), Uploads: mem(t, "", "there")},
			{Files: mem(t, "", "hosts/20010DB8000000000000000000000001/f", "hosts/default/f")},
		},
		Map: mapFile(t, `
a  ^evil$  no\ evil	here
a  ^quiet$
s  ^loop$
r  ^out$   ../f
rE ^f$     secret/f
rE ^f$     hosts/\x/f
r  ^f$     hosts/default/f
rPE ^any$  there
rP ^any$   else
`),
		Upload: site.UploadCreate,
		Access: rules(t, "deny all * /secret/**"),
	}
	storetest.Put(t, s.Roots[0].Files, "secret/f", "no")
	tests := []struct{ peer, name, want string }{
		{"10.0.0.7", "f", "hosts/0A000007/f"},
		{"::ffff:10.0.0.7", "f", "hosts/0A000007/f"},
		{"2001:db8::1", "f", "hosts/20010DB8000000000000000000000001/f"},
		{"2001:db8::2", "f", "hosts/default/f"},
		{"10.0.0.7", "evil", "refused: no evil"},
		{"10.0.0.7", "quiet", "refused: access denied"},
		{"10.0.0.7", "loop", "refused: file name cannot be mapped"},
		{"10.0.0.7", "out", "refused: access violation"},
		{"10.0.0.7", "up", "up"},
	}
	for _, test := range tests {
		if got := read(t, s, client(test.peer), test.name); got != test.want {
			t.Errorf("%s, %s: %q, want %q", test.peer, test.name, got, test.want)
		}
	}
	_, err := s.Open(t.Context(), client("10.0.0.7"), "evil")
	if _, ok := errors.AsType[*remap.Abort](err); !ok || err.Error() != `no evil: refused by the map file, line 2: "no evil"` {
		t.Error(err)
	}
	// In E rules, a name does not exist if an upload under it would be refused.
	for _, test := range []struct {
		policy site.Policy
		want   string
	}{{site.UploadCreate, "else"}, {site.UploadOverwrite, "there"}} {
		s.Upload = test.policy
		if got := upload(t, s, client("10.0.0.8"), "any", "x"); got != test.want {
			t.Errorf("%v: %q, want %q", test.policy, got, test.want)
		}
	}
	s.Map = mapFile(t, "rE ^ new/\nr ^ old/")
	if got := upload(t, s, client("10.0.0.8"), "f", "x"); got != "new/f" {
		t.Errorf("%q", got)
	}
}

func TestMessagesAreFitForClients(t *testing.T) {
	s := &site.Site{Roots: []site.Root{{Files: mem(t, "")}}, Map: mapFile(t, `a (.*) no\ \0`)}
	_, err := s.Open(t.Context(), client("10.0.0.1"), "\x00\n\x7f"+strings.Repeat("ä", 200))
	r, ok := errors.AsType[*site.Refusal](err)
	if !ok || len(r.Message) != 128 || strings.Trim(r.Message, "no ?") != "" {
		t.Errorf("%v", err)
	}
}

func TestAccess(t *testing.T) {
	s := &site.Site{
		Roots:  []site.Root{{Files: mem(t, "", "boot/a/k", "boot/key.pem", "secret/f", "f", "Secret/g")}},
		Upload: site.UploadOverwrite,
		Access: rules(t,
			"deny all 10.66.0.0/16",
			"deny read * *.pem",
			"deny read * /secret/",
			"allow read * /boot/**",
			"allow all 10.1.0.0/16",
			"allow read 52:54:00:12:34:56 f",
			"deny all * *",
		),
		Neighbours: fakeTable{"10.9.0.1": macA},
	}
	tests := []struct {
		peer, name string
		write      bool
		want       string
	}{
		{"10.2.0.1", "boot/a/k", false, "boot/a/k"},
		{"10.2.0.1", "/BOOT/a/k", false, "refused: access denied"}, // a rule that allows is case-sensitive
		{"10.2.0.1", "boot/key.pem", false, "refused: access denied"},
		{"10.2.0.1", "boot/KEY.PEM", false, "refused: access denied"}, // a rule that denies is not
		{"10.1.0.1", "secret/f", false, "refused: access denied"},
		{"10.1.0.1", "Secret/g", false, "refused: access denied"},
		{"10.1.0.1", "\u017fecret/g", false, "refused: access denied"}, // a long s folds to s
		{"10.1.0.1", "secret. ./f", false, "refused: access denied"},
		{"10.1.0.1", "f", false, "f"},
		{"10.2.0.1", "f", false, "refused: access denied"},
		{"10.9.0.1", "f", false, "f"},
		{"10.9.0.1", "boot/a/k", true, "refused: access denied"},
		{"10.1.0.1", "boot/a/n", true, "boot/a/n"},
		{"10.66.0.1", "boot/a/k", false, "refused: access denied"},
		{"10.66.0.1", "boot/a/k", true, "refused: access denied"},
	}
	for _, test := range tests {
		got := ""
		if test.write {
			got = upload(t, s, client(test.peer), test.name, "x")
		} else {
			got = read(t, s, client(test.peer), test.name)
		}
		if got != test.want {
			t.Errorf("%s, %q, write %v: %q, want %q", test.peer, test.name, test.write, got, test.want)
		}
	}
	_, err := s.Open(t.Context(), client("10.2.0.1"), "f")
	if err == nil || err.Error() != "access denied: access rule 7: deny all * *" {
		t.Error(err)
	}
	s.FoldCase = true
	if got := read(t, s, client("10.2.0.1"), "/BOOT/a/k"); got != "not found" {
		t.Errorf("allow does not fold: %q", got)
	}
	s.Access = rules(t, "allow read 52:54:00:12:34:56 f", "allow write *")
	if got := read(t, s, client("10.2.0.1"), "f"); got != "f" {
		t.Errorf("with no rule that matches: %q", got)
	}
}

// Without the table the right root or rule is unknown. The request fails, and does not get another
// client's files.
func TestNoNeighbourTable(t *testing.T) {
	files := mem(t, "", "f")
	for _, s := range []*site.Site{
		{Roots: []site.Root{{Match: site.Match{MACs: []site.MAC{macA}}, Files: files}, {Files: files}}},
		{Roots: []site.Root{{PerClient: site.ByMAC, Files: files}}},
		{Roots: []site.Root{{Files: files}}, Access: rules(t, "deny read 52:54:00:12:34:56")},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "hardware (MAC) addresses") {
			t.Errorf("Check: %v", err)
		}
		if got := read(t, s, client("10.0.0.1"), "f"); got != "f" {
			t.Errorf("without a table: %q", got)
		}
		s.Neighbours = fakeTable(nil)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		_, err := s.Open(t.Context(), client("10.0.0.1"), "f")
		if !errors.Is(err, errTable) || errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
		_, err = s.Stat(t.Context(), client("10.0.0.1"), "f")
		if !errors.Is(err, errTable) {
			t.Errorf("%v", err)
		}
	}
}

func TestPerClient(t *testing.T) {
	files := mem(t, "", "f", "common", "10.0.0.1/f", "10.0.0.2/f", "2001:db8::1/f", "10.0.0.4", "52-54-00-12-34-56/f", "52-54-00-12-34-57/f")
	table := fakeTable{"10.0.0.3": macA}
	tests := []struct {
		kind             site.PerClient
		shared           bool
		peer, name, want string
	}{
		{site.ByIP, false, "10.0.0.1", "f", "10.0.0.1/f"},
		{site.ByIP, false, "::ffff:10.0.0.1", "f", "10.0.0.1/f"},
		{site.ByIP, false, "2001:db8::1", "f", "2001:db8::1/f"},
		{site.ByIP, false, "10.0.0.1", "common", "not found"},
		{site.ByIP, true, "10.0.0.1", "common", "common"},
		{site.ByIP, true, "10.0.0.1", "f", "10.0.0.1/f"},
		{site.ByIP, true, "10.0.0.1", "none", "not found"},
		{site.ByIP, false, "10.0.0.3", "f", "f"},
		{site.ByIP, false, "10.0.0.4", "f", "f"}, // the entry with the name of its directory is a file
		{site.ByIP, false, "10.0.0.3", "10.0.0.1/f", "not found"},
		{site.ByIP, true, "10.0.0.1", "10.0.0.2/f", "not found"},
		{site.ByIP, false, "10.0.0.3", "2001:DB8:0::1/f", "not found"},
		{site.ByIP, true, "10.0.0.1", "10.0.0.1/f", "10.0.0.1/f"},
		{site.ByIP, false, "10.0.0.3", "52-54-00-12-34-56/f", "52-54-00-12-34-56/f"}, // with ByIP, this is an ordinary directory
		{site.ByMAC, false, "10.0.0.3", "f", "52-54-00-12-34-56/f"},
		{site.ByMAC, true, "10.0.0.3", "common", "common"},
		{site.ByMAC, false, "10.0.0.1", "f", "f"},
		{site.ByMAC, false, "10.0.0.1", "52-54-00-12-34-57/f", "not found"},
		{site.ByMAC, true, "10.0.0.3", "52-54-00-12-34-57/f", "not found"},
	}
	for _, test := range tests {
		s := &site.Site{Roots: []site.Root{{Files: files, PerClient: test.kind, Shared: test.shared}}, Neighbours: table}
		if got := read(t, s, client(test.peer), test.name); got != test.want {
			t.Errorf("by %v, shared %v, %s, %s: %q, want %q", test.kind, test.shared, test.peer, test.name, got, test.want)
		}
	}
	s := &site.Site{Roots: []site.Root{{Files: files, PerClient: site.ByIP, Shared: true}}, Upload: site.UploadOverwrite}
	for _, test := range []struct{ peer, name, want string }{
		{"10.0.0.1", "log", "10.0.0.1/log"},
		{"10.0.0.3", "log", "log"},
		{"10.0.0.3", "10.0.0.1/log", "not found"},
	} {
		if got := upload(t, s, client(test.peer), test.name, "x"); got != test.want {
			t.Errorf("upload of %s by %s: %q, want %q", test.name, test.peer, got, test.want)
		}
	}
}

// A brokenStore fails to describe anything.
type brokenStore struct{ store.Store }

func (brokenStore) Stat(context.Context, string) (fs.FileInfo, error) { return nil, errTable }

// If it is unknown whether a client has its own directory, the client does not get the root.
func TestPerClientUnknown(t *testing.T) {
	s := &site.Site{Roots: []site.Root{{Files: brokenStore{mem(t, "", "f")}, PerClient: site.ByIP}}}
	if _, err := s.Open(t.Context(), client("10.0.0.1"), "f"); !errors.Is(err, errTable) {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	files := mem(t, "")
	tests := []struct {
		s    *site.Site
		want string
	}{
		{&site.Site{}, "no root"},
		{&site.Site{Roots: []site.Root{{Files: files}, {}}}, "root 2 has no store"},
		{&site.Site{Roots: []site.Root{{Files: files, PerClient: 9}}}, "unknown kind 9"},
		{&site.Site{Roots: []site.Root{{Files: files}}, Upload: 9}, "unknown upload policy 9"},
	}
	for _, test := range tests {
		if err := test.s.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// The view of one client is a store like any other.
func TestFor(t *testing.T) {
	s := &site.Site{
		Roots:  []site.Root{{Match: match(t, "10.0.0.1"), Files: mem(t, "a:", "f")}, {Files: mem(t, "b:", "f")}},
		Upload: site.UploadCreate,
	}
	st := s.For(client("10.0.0.1"))
	storetest.Put(t, st, "new", "x")
	fi, err := st.Stat(t.Context(), "new")
	if err != nil || fi.Size() != 1 {
		t.Error(fi, err)
	}
	if _, err := st.Open(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	if _, err := s.For(client("10.0.0.2")).Stat(t.Context(), "new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The neighbour table is needed where a hardware address is, and nowhere else.
func TestNeedsNeighbours(t *testing.T) {
	mac, err := site.ParseMatch("52:54:00:12:34:56")
	if err != nil {
		t.Fatal(err)
	}
	network, err := site.ParseMatch("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		s    *site.Site
		want bool
	}{
		"nothing":    {&site.Site{}, false},
		"networks":   {&site.Site{Roots: []site.Root{{Match: network, PerClient: site.ByIP}}, Access: []site.Rule{{Who: network}}}, false},
		"a root":     {&site.Site{Roots: []site.Root{{}, {Match: mac}}}, true},
		"per client": {&site.Site{Roots: []site.Root{{PerClient: site.ByMAC}}}, true},
		"a rule":     {&site.Site{Access: []site.Rule{{Who: network}, {Who: mac}}}, true},
	} {
		if got := test.s.NeedsNeighbours(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
