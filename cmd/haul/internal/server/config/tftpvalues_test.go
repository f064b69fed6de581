package config_test

import (
	"fmt"
	"strings"
	"testing"
)

// A wrong rule for TFTP clients is refused. A rollover rule is also refused if it never applies;
// rules for options add up.
func TestTFTPClientRules(t *testing.T) {
	const maxNetworks = 1024
	many := ""
	for i := range maxNetworks {
		many += fmt.Sprintf(",10.%d.%d.0/24", i/256, i%256)
	}
	for _, test := range []struct {
		flags string // flags, separated by vertical bars
		says  string // a part of the error or, if it begins with =, the resulting configuration
	}{
		{"--refuse=tsize", "=[{tsize []}] []"},
		{"--refuse=tsize *", "=[{tsize []}] []"},
		{"--refuse= TSIZE,timeout  10.1.2.3/32,2001:db8::/32 |--refuse=tsize", "=[{tsize,timeout [10.1.2.3/32 2001:db8::/32]} {tsize []}] []"},
		{"--refuse=blksize 10.0.0.0/8|--refuse=blksize 10.0.0.0/8|--refuse=blksize 10.1.0.0/16", "=[{blksize [10.0.0.0/8]} {blksize [10.0.0.0/8]} {blksize [10.1.0.0/16]}] []"},
		{"--refuse=", "it has one or two parts"},
		{"--refuse=tsize 10.0.0.0/8, 10.1.0.0/16", "no spaces between them"},
		{"--refuse=multicast", `there is no option "multicast"; the options are blksize, blksize2,`},
		{"--refuse=10.0.0.0/8 tsize", "tsize: it is an address or a network"},
		{"--refuse=tsize 10.0.0.0/33", "10.0.0.0/33: it is no network; write it like 10.0.0.0/8"},
		{"--refuse=tsize 10.1.2.3/8", `10.1.2.3/8: it has bits set beyond the first 8; write 10.0.0.0/8 for the network, or 10.1.2.3 for that address alone`},
		{"--refuse=tsize 10.0.0.0/8,10.1.2.3/8", `"10.1.2.3/8": it has bits set`},
		{"--refuse=tsize 52:54:00:12:34:56", "it is an address or a network"},
		{"--refuse=tsize on=:69", "it is an address or a network"},
		{"--refuse=tsize fe80::1%eth0", "it has a zone; leave out %eth0"},

		{"--rollover=1", "=[] [{2 []}]"},
		{"--rollover=0 10.1.0.0/16|--rollover=1 10.0.0.0/8|--rollover=0", "=[] [{1 [10.1.0.0/16]} {2 [10.0.0.0/8]} {1 []}]"},
		{"--rollover=0 ::/0|--rollover=1 10.0.0.0/8", "=[] [{1 [::/0]} {2 [10.0.0.0/8]}]"},
		{"--rollover=2", "it is 0 or 1"},
		{"--rollover=01", "it is 0 or 1"},
		{"--rollover=1 here", "here: it is an address or a network"},
		{"--rollover=0|--rollover=1 10.0.0.0/8", `"1 10.0.0.0/8" never counts, because "0" is before it`},
		{"--rollover=1 10.0.0.0/8|--rollover=1 10.0.0.0/8", `never counts for 10.0.0.0/8`},
		{"--rollover=0 10.0.0.0/8|--rollover=1 192.0.2.7,10.9.0.1", `"1 192.0.2.7,10.9.0.1" never counts for 10.9.0.1/32, because "0 10.0.0.0/8" is before it; put it first`},

		{"--refuse=" + strings.Repeat("tsize|--refuse=", maxNetworks) + "tsize", "more than 1024 networks together"},
		{"--rollover=1 " + many[1:] + "|--rollover=0", "more than 1024 networks together"},
	} {
		_, cfg, err := resolve(t, source{dirs: []string{"/srv"}, flags: strings.Split(test.flags, "|")})
		got := fmt.Sprint(err)
		if err == nil {
			var refuse, rollover []any
			for _, r := range cfg.TFTP.Refuse {
				refuse = append(refuse, struct{ Set, Networks any }{r.Refuse, r.Networks})
			}
			for _, r := range cfg.TFTP.Rollover {
				rollover = append(rollover, struct{ Next, Networks any }{r.Rollover, r.Networks})
			}
			got = fmt.Sprint("=", refuse, " ", rollover)
		}
		if want, isConfig := strings.CutPrefix(test.says, "="); isConfig && got != "="+want || !strings.Contains(got, want) {
			t.Errorf("%.200s: %.1000s, want %s", test.flags, got, test.says)
		}
	}
}
