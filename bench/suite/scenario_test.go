package suite

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

func TestScenarios(t *testing.T) {
	for name, all := range map[string][]Scenario{"full": Full(), "quick": Quick(), "smoke": Smoke()} {
		seen := make(map[string]bool)
		for _, s := range all {
			if seen[s.Name] {
				t.Errorf("%s: two scenarios are called %s", name, s.Name)
			}
			seen[s.Name] = true
			if s.Group == emulatorGroup && s.Link != "" && s.act != nil {
				continue // there are no files
			}
			if s.Group == "" || s.Title == "" || s.Guess == 0 || s.Size <= 0 || s.Transfers < s.Concurrency && s.Rate == 0 && s.Length == 0 {
				t.Errorf("%s: %s is not complete: %+v", name, s.Name, s)
			}
			if s.Concurrency > 10_000 {
				t.Errorf("%s: %s has %d at once, more than the load generator makes", name, s.Name, s.Concurrency)
			}
		}
	}
}

// A quick run must fit into its time with a reserve, if the guesses are right.
func TestQuickIsQuick(t *testing.T) {
	set := someSet()
	var total time.Duration
	for _, s := range Quick() {
		turns, _ := takePart(s, set)
		total += s.Guess * time.Duration(len(turns)*DefaultRounds)
	}
	if total == 0 || total > 10*time.Minute {
		t.Errorf("a quick run is guessed to take %v", total)
	}
}

// someSet returns servers of each kind.
func someSet() peer.Set {
	return peer.Set{
		Servers: []peer.Server{
			{Name: "haul", Windows: true, Uploads: peer.Disk},
			{Name: "haul single-port", Windows: true, Uploads: peer.Disk, SinglePort: true},
			{Name: "haul 2 loops", Windows: true, Uploads: peer.Disk, Variant: true},
			{Name: "haul before", Windows: true, Uploads: peer.Disk},
			{Name: "tftpd-hpa", Uploads: peer.Disk, MaxConcurrent: 1000},
			{Name: "r-tftpd", Windows: true, Uploads: peer.Discards, Note: "one loop"},
			{Name: "reader"},
			{Name: "floor-64", Windows: true, Uploads: peer.Discards, Floor: true},
		},
		Clients: []peer.Client{{Name: "tftp-hpa"}, {Name: "curl"}, {Name: "haul"}},
	}
}

func TestTakePart(t *testing.T) {
	for _, tt := range []struct {
		scenario Scenario
		want     string
		refused  string
	}{
		{Scenario{Who: who{floors: true}}, "haul haul-single-port haul-before tftpd-hpa r-tftpd reader floor-64", ""},
		{Scenario{}, "haul haul-single-port haul-before tftpd-hpa r-tftpd reader", ""},
		{Scenario{Who: who{windows: true}}, "haul haul-single-port haul-before r-tftpd", ""},
		{Scenario{Who: who{names: []string{"haul", "reader", "floor-64"}}}, "haul haul-before reader floor-64", ""},
		{Scenario{Who: who{names: []string{"haul 2 loops"}}}, "haul-2-loops", ""},
		{Scenario{Scenario: record.Scenario{Load: record.Load{Write: true}}}, "haul haul-single-port haul-before tftpd-hpa r-tftpd", ""},
		{Scenario{Scenario: record.Scenario{Load: record.Load{Concurrency: 10_000}}}, "haul haul-single-port haul-before r-tftpd reader", "tftpd-hpa"},
		{Scenario{Who: who{names: []string{"reader"}, clients: []string{"tftp-hpa"}}}, "reader", ""},
		// The other's client is absent.
		{Scenario{Who: who{names: []string{"haul", "r-tftpd", "reader"}, own: true}}, "haul haul-before", ""},
		{Scenario{Who: who{names: []string{"reader"}, clients: []string{"tftp-hpa", "atftp", "curl"}}}, "tftp-hpa curl", ""},
	} {
		turns, refused := takePart(tt.scenario, someSet())
		var names []string
		for _, c := range turns {
			names = append(names, strings.ReplaceAll(c.Name, " ", "-"))
		}
		var without []string
		for _, r := range refused {
			without = append(without, r.name)
		}
		if got := strings.Join(names, " "); got != tt.want || strings.Join(without, " ") != tt.refused {
			t.Errorf("%+v: %s, without %q; want %s, without %s", tt.scenario.Who, got, without, tt.want, tt.refused)
		}
	}
}

func TestUploadsAreNoted(t *testing.T) {
	turns, _ := takePart(Scenario{Scenario: record.Scenario{Load: record.Load{Write: true}}}, someSet())
	i := slices.IndexFunc(turns, func(c contender) bool { return c.Name == "r-tftpd" })
	if want := "uploads are discarded; one loop"; i < 0 || turns[i].Note != want {
		t.Errorf("the notes are %+v, want one of %q", turns, want)
	}
}

func TestUnknownContender(t *testing.T) {
	s := Suite{Only: []string{"haul", "nobody"}}
	if err := s.known(someSet()); err == nil || !strings.Contains(err.Error(), `--peers: no contender is called "nobody"; there are haul, `) {
		t.Errorf("%v", err)
	}
}

func TestGeneratorArgs(t *testing.T) {
	for _, tt := range []struct {
		load record.Load
		want string
	}{
		{record.Load{Concurrency: 3, Transfers: 300, Size: 1000, NoOptions: true},
			"bench tftp tftp://[::1]:69/f1000-{} --json --pattern --timeout 90s --concurrency 3 --transfers 300 --size 1000 --names 100 --no-options"},
		{record.Load{Concurrency: 1, Transfers: 1, Size: 5, Write: true, BlockSize: 1468, Window: 64},
			"bench tftp tftp://[::1]:69/up-f5-{} --json --pattern --timeout 90s --concurrency 1 --transfers 1 --size 5 --put --blksize 1468 --windowsize 64"},
		{record.Load{Concurrency: 1, Transfers: 1, Size: 5, Loss: 0.01, Seed: 3, Rate: 200},
			"bench tftp tftp://[::1]:69/f5-{} --json --pattern --timeout 90s --concurrency 1 --transfers 1 --size 5 --names 1 --loss 0.01 --seed 3 --rate 200"},
	} {
		if got := strings.Join(generatorArgs("[::1]:69", tt.load), " "); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestCellSize(t *testing.T) {
	for _, tt := range []struct {
		profile     string
		window      int
		least, most int64
	}{
		{"lan1g", 1, 14 * mB, 16 * mB},
		{"lan1g", 128, 150 * mB, 180 * mB},
		{"lan1g+loss", 128, 15 * mB, 18 * mB},
		{"vpn", 1, minCell, minCell},
		{"vpn+loss", 1, minLossCell, minLossCell},
	} {
		if got := cellSize(tt.profile, tt.window); got < tt.least || got > tt.most {
			t.Errorf("%s, windowsize %d: %d bytes, want %d to %d", tt.profile, tt.window, got, tt.least, tt.most)
		}
	}
}

func TestSaidDuration(t *testing.T) {
	got, err := saidDuration("a in b: 4.2 MB in 13.5ms, 320.2 MB/s, 0 resends\n")
	if err != nil || got != 13500*time.Microsecond {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := saidDuration("nothing"); err == nil {
		t.Error("no error about a line without a duration")
	}
}

func TestProgress(t *testing.T) {
	var p progress
	a := Scenario{Scenario: record.Scenario{Name: "a"}, Guess: time.Second}
	b := Scenario{Scenario: record.Scenario{Name: "b"}, Guess: 2 * time.Second}
	p.add(a, 4)
	p.add(b, 2)
	check := func(wantN int, want time.Duration) {
		t.Helper()
		if n, left := p.left(); n != wantN || left.Round(time.Millisecond) != want {
			t.Errorf("%d left in %v, want %d in %v", n, left, wantN, want)
		}
	}
	check(6, 8*time.Second)
	p.done(a, 2*time.Second) // twice the guess, so b is expected to take twice as long too
	check(5, (3*2+2*4)*time.Second)
	p.skip(a, 3)
	check(2, 8*time.Second)
}
