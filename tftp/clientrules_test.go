package tftp

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// refusal returns a rule; an empty network means all clients.
func refusal(options, network string) ClientRule {
	set, err := transfer.ParseOptionSet(options)
	if err != nil {
		panic(err)
	}
	r := ClientRule{Refuse: set}
	if network != "" {
		r.Networks = []netip.Prefix{netip.MustParsePrefix(network)}
	}
	return r
}

// The options of all matching rules are refused to a client, in any order of the rules. Other
// clients get them. A repeated request still counts as a repeat.
func TestRefuse(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Rules = []ClientRule{refusal("tsize", otherIP+"/32"), refusal("timeout,windowsize", "192.0.2.0/24"), refusal("blksize", "198.51.100.0/24"), refusal("rollover", "")}
	}, func(w *simWorld) {
		file := w.put("f", 1000)
		ask := tftptest.RRQ("f", "tsize", "0", "timeout", "1", "blksize", "1024", "windowsize", "4", "rollover", "1")
		for ip, options := range map[string][]string{
			otherIP:       {"blksize", "1024"},
			clientIP:      {"blksize", "1024", "tsize", "1000"},
			"203.0.113.7": {"blksize", "1024", "tsize", "1000", "timeout", "1", "windowsize", "4"},
		} {
			p := w.raw(ip)
			p.Ask(ask)
			p.Want("the OACK of "+ip, tftptest.OACK(options...))
			p.Ask(ask)
			p.Want("the same again", tftptest.OACK(options...))
			p.Send(tftptest.ACK(0))
			p.Read(file, 1024, 1)
			p.Close()
		}
		synctest.Wait()
		if n := len(w.log.lines); n != 3 {
			t.Errorf("%d transfers are logged, and there were 3", n)
		}
	})
}

// If the tsize of an upload is refused, neither the server nor Write expects that size.
func TestRefusedTsizeOfUpload(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.Rules = []ClientRule{refusal("tsize", otherIP+"/32")}
		s.MaxUpload = 1 << 20
	}, func(w *simWorld) {
		file := tftptest.Content("f", 700)
		for ip, refused := range map[string]bool{clientIP: false, otherIP: true} {
			p := w.raw(ip)
			p.Ask(tftptest.WRQ("from-"+ip, "tsize", "1048577", "blksize", "1024"))
			if !refused {
				p.WantError("too large", transfer.DiskFull)
				p.Close()
				continue
			}
			p.Want("OACK without tsize", tftptest.OACK("blksize", "1024"))
			p.Write(file, 1024)
			tftptest.WantFile(t, w.mem, "from-"+ip, file)
			p.Close()
		}
	})
}

// The first matching rule decides which block number follows 65535, for reads and uploads.
func TestRolloverRules(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("moves a file of 65,540 blocks four times; who owns what is as in other transfers")
	}
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Rules = []ClientRule{
			{Rollover: transfer.RolloverZero, Networks: []netip.Prefix{netip.MustParsePrefix(otherIP + "/32")}},
			{Rollover: transfer.RolloverOne, Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		}
		s.Limits.Window = 4096
	}, func(w *simWorld) {
		const last, window = 65540, 4096
		file := w.put("f", (last-1)*8+3)
		number := func(block, behind int) int {
			if block > 65535 {
				return block - 65536 + behind
			}
			return block
		}
		for ip, behind := range map[string]int{clientIP: 1, otherIP: 0} {
			p := w.raw(ip)
			options := []string{"blksize", "8", "windowsize", "4096"}
			p.Ask(tftptest.RRQ("f", options...))
			p.Want("OACK without rollover", tftptest.OACK(options...))
			p.Send(tftptest.ACK(0))
			for n := 1; n <= last; n++ {
				p.Want("a block", tftptest.Data(number(n, behind), file[(n-1)*8:min(n*8, len(file))]))
				if n%window == 0 || n == last {
					p.Send(tftptest.ACK(number(n, behind)))
				}
			}
			p.Ask(tftptest.WRQ("from-"+ip, options...))
			p.Want("OACK without rollover", tftptest.OACK(options...))
			for n := 1; n <= last; n++ {
				p.Send(tftptest.Data(number(n, behind), file[(n-1)*8:min(n*8, len(file))]))
				if n%window == 0 || n == last {
					p.Want("an ACK", tftptest.ACK(number(n, behind)))
				}
			}
			tftptest.WantFile(t, w.mem, "from-"+ip, file)
			p.Close()
		}
	})
}

// A client that requests blksize2 gets a power of two.
func TestBlockSize2(t *testing.T) {
	playClient(t, func(w *simWorld) {
		b := w.put("image", 3000)
		p := w.raw(otherIP)
		defer p.Close()
		p.Ask(tftptest.RRQ("image", "blksize2", "65464", "tsize", "0"))
		p.Want("OACK", tftptest.OACK("blksize2", "32768", "tsize", "3000"))
		p.Send(tftptest.ACK(0))
		p.Read(b, 32768, 1)

		synctest.Wait()
		r := w.raw(otherIP)
		defer r.Close()
		r.Ask(tftptest.WRQ("new", "blksize2", "1428"))
		r.Want("OACK", tftptest.OACK("blksize2", "1024"))
		r.Write(b, 1024)
		tftptest.WantFile(t, w.mem, "new", b)
	},
		"done read image: octet blksize2=32768 tsize=3000",
		"done write new: octet blksize2=1024")
}

// Rules match the usual forms of addresses: an IPv4 address in its IPv6 form and an address with
// a zone belong to their network.
func TestRulesMatchAddresses(t *testing.T) {
	s := Config{Rules: []ClientRule{refusal("tsize", "192.0.2.0/24"), refusal("blksize", "fe80::/10"), {Rollover: transfer.RolloverOne, Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	for address, want := range map[string]string{
		"192.0.2.7": "tsize", "::ffff:192.0.2.7": "tsize", "fe80::1%eth0": "blksize", "2001:db8::1": "", "192.0.3.7": "",
	} {
		a := netip.MustParseAddr(address)
		if got := s.refused(a).String(); got != want {
			t.Errorf("%s is refused %q, want %q", address, got, want)
		}
		if got := s.rolloverOf(a).Next(); (got == 1) != (want == "tsize") {
			t.Errorf("%s: block %d follows 65535", address, got)
		}
	}
}

// A rule with an invalid rollover is refused.
func TestBadRolloverRule(t *testing.T) {
	s := Config{Store: store.Mem(1), Rules: []ClientRule{{Rollover: transfer.RolloverOneUnasked}}}
	if _, err := s.Listen(context.Background(), "127.0.0.1:0"); err == nil {
		t.Error("the server listens")
	}
}
