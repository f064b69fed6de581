package suite

import (
	"fmt"
	"time"
)

const (
	guardTree  = 4000            // number of small files that are copied together
	guardSmall = 4000            // how many times a small file is fetched on one connection
	guardGuess = 2 * time.Second // duration of most of the measurements
)

// GuardPeers returns the names of the contenders in the scenarios of Guard.
func GuardPeers() []string {
	var all []string
	for _, name := range []string{"haul", haulPair, "haul serve"} {
		all = append(all, name, asBefore(name))
	}
	return all
}

// Guard returns short versions of the most important scenarios, for haul and another build of haul.
func Guard() []Scenario {
	all := []Scenario{
		many(100, 200, 1*mB, false),
		many(1000, 2000, 64*kB, false),
		many(100, 8000, 10*kB, false),
	}
	for _, s := range windows(64 * mB)[:2] {
		s.Transfers = 10
		s.Title = fmt.Sprintf("%d times %s", s.Transfers, s.Title)
		all = append(all, s)
	}
	for i := range all {
		all[i].Warmups = min(all[i].Warmups, 20)
		all[i].Who, all[i].Guess = who{names: []string{"haul"}}, guardGuess
	}
	pairs := []Scenario{
		sftpFile("rtt0", "", 256*miB, false), sftpFile("rtt0", "", 256*miB, true),
		sftpMany("rtt0", "", guardTree, false), sftpMany("rtt0", "", guardTree, true),
		sftpFile("rtt20", "rtt20", 128*miB, false),
	}
	for _, s := range pairs {
		s.Who.names, s.Guess = []string{haulPair}, guardGuess
		all = append(all, s)
	}
	small := httpFile(1*kiB, guardSmall, false)
	small.Name = "http-small"
	streams := []Scenario{httpFile(256*miB, fileTransfers, false), httpFile(256*miB, fileTransfers/2, true), small}
	for _, s := range streams {
		s.Who.names, s.Guess = []string{"haul serve"}, guardGuess
		all = append(all, s)
	}
	for _, s := range document4(tcpClients, tcpLength/2)[:2] {
		s.Who.names, s.Guess = []string{"haul"}, 4*time.Second
		all = append(all, s)
	}
	return all
}
