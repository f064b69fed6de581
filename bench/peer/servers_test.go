package peer

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A build of haul gets only flags that it has, whether it lists all of them with --help-all or is
// an older one that lists them with --help.
func TestHaulFlags(t *testing.T) {
	const all = "echo 'Usage: --tftp A --rate N  --quiet  log failures only'"
	for name, script := range map[string]string{
		"new": "case $2 in --help-all) " + all + " ;; --help) echo 'Usage: --tftp A' ;; esac",
		"old": "case $2 in --help-all) echo 'there is no flag --help-all'; exit 2 ;; --help) " + all + " ;; esac",
	} {
		path := filepath.Join(t.TempDir(), "haul")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		servers, err := Haul("haul", path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		args := servers[0].args(Options{Dir: "d"}, netip.MustParseAddrPort("127.0.0.1:69"))
		for _, flag := range []string{"--quiet", "--rate"} {
			if !slices.Contains(args, flag) {
				t.Errorf("%s: started with %q, without %s", name, args, flag)
			}
		}
	}
}
