package site_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/store"
)

// names lists a directory as one client sees it.
func names(t testing.TB, s *site.Site, c site.Client, dir string) string {
	t.Helper()
	entries, err := s.ReadDir(t.Context(), c, dir)
	if err != nil {
		return explain(t, err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestReadDir(t *testing.T) {
	files := mem(t, "", "boot/kernel", "boot/secret.key", "readme", "10.0.0.1/own", "10.0.0.1/boot/mine", "10.0.0.2/theirs", "10.0.0.3")
	s := &site.Site{
		Roots: []site.Root{
			{Match: match(t, "10.9.0.0/16"), Files: files, PerClient: site.ByIP},
			{Match: match(t, "10.0.0.0/24"), Files: files, PerClient: site.ByIP, Shared: true},
			{Match: match(t, "192.0.2.1"), Uploads: files},
			{Match: match(t, "192.0.2.2"), Files: noFiles{}},
		},
		Access: rules(t, "deny read * *.key", "deny read 10.9.0.9 /boot/**"),
	}
	tests := []struct{ peer, dir, want string }{
		// A client without a directory of its own sees the root, without the directories of other
		// clients.
		{"10.9.0.1", ".", "boot readme"},
		{"10.9.0.1", "boot", "kernel"},
		{"10.9.0.1", "10.0.0.2", "not found"},
		{"10.9.0.1", "readme", "not found"},
		{"10.9.0.9", "boot", ""},
		{"10.0.0.3", ".", "boot readme"}, // the entry with the name of its directory is a file
		// A client with a directory sees its content and the shared files.
		{"10.0.0.1", ".", "boot own readme"},
		{"10.0.0.1", "boot", "kernel mine"},
		{"10.0.0.1", "none", "not found"},
		{"10.0.0.1", "10.0.0.2", "not found"},
		{"192.0.2.1", ".", "refused: only uploads are allowed"},
		{"192.0.2.3", ".", "refused: access denied"},
	}
	for _, test := range tests {
		if got := names(t, s, client(test.peer), test.dir); got != test.want {
			t.Errorf("%s for %s: %q, want %q", test.dir, test.peer, got, test.want)
		}
	}
	if _, err := s.ReadDir(t.Context(), client("192.0.2.2"), "."); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a store that cannot list: %v", err)
	}
	if _, err := s.ReadDir(t.Context(), client("10.9.0.1"), "../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("of no name: %v", err)
	}
	mapped := &site.Site{Roots: []site.Root{{Files: store.Store(files)}}, Map: mapFile(t, "r ^x y\n")}
	if _, err := mapped.ReadDir(t.Context(), client("10.9.0.1"), "."); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("with a map: %v", err)
	}
}
