package suite

import (
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

const miB = 1 << 20

// distances are the links that SFTP is measured over, with the size of a large
// file on each: what moves at most 2 MiB a round trip should not take minutes.
var distances = []struct {
	name, profile string
	size          int64
}{
	{"rtt0", "", 256 * miB},
	{"rtt9", "rtt9", 256 * miB},
	{"rtt20", "rtt20", 128 * miB},
	{"rtt100", "rtt100", 64 * miB},
}

// fileClients are those who move one file.
var fileClients = []string{
	"haul", "haul to haul", "OpenSSH sftp", "OpenSSH sftp -R 256 -B 261120",
	"pkg/sftp", "pkg/sftp to pkg/sftp", "lftp", "lftp pget -n 4", "rclone",
}

// sftpScenarios returns all of them.
func sftpScenarios() []Scenario {
	var all []Scenario
	for _, write := range []bool{false, true} {
		for _, d := range distances {
			all = append(all, sftpFile(d.name, d.profile, d.size, write))
		}
		// More than the start, at 100 ms.
		long := sftpFile("rtt100-256MiB", "rtt100", 256*miB, write)
		long.Group += "-long"
		long.Who.names = []string{"haul", "haul to haul", "OpenSSH sftp", "pkg/sftp"}
		long.Guess *= 3
		all = append(all, long)
	}
	return all
}

// sftpFile is one large file, by the program that people would use.
func sftpFile(name, profile string, size int64, write bool) Scenario {
	group, way, task := "sftp-get", "down", peer.GetFile
	if write {
		group, way, task = "sftp-put", "up", peer.PutFile
	}
	s := Scenario{
		Scenario: record.Scenario{
			Name: group + "-" + name, Group: group, Protocol: record.SFTP, Link: profile, Fresh: true,
			Title: fmt.Sprintf("%d MiB %s by SFTP, %s", size/miB, way, distanceOf(profile)),
			Load:  record.Load{Concurrency: 1, Transfers: 1, Size: size, Write: write},
		},
		Who: who{names: fileClients}, Guess: 4 * time.Second,
		act: sftpTransfer, task: task,
	}
	s.RoundTrip = roundTrip(profile)
	return s
}

// roundTrip returns that of a profile in milliseconds, and 0 for loopback.
func roundTrip(profile string) float64 {
	p, err := link.Lookup(profile)
	if err != nil {
		return 0 // of a wrong name the measurement tells
	}
	return (p.Ways[link.A].Delay + p.Ways[link.B].Delay).Seconds() * 1e3
}

func distanceOf(profile string) string {
	if profile == "" {
		return "over loopback"
	}
	return fmt.Sprintf("%g ms there and back, unlimited bandwidth", roundTrip(profile))
}

// pairsFor returns whose turn it is in a scenario of SFTP.
func pairsFor(sc Scenario, set peer.Set) []contender {
	var turns []contender
	for i := range set.Pairs {
		p := &set.Pairs[i]
		if !p.Client.Does(sc.task) || !slices.Contains(sc.Who.names, p.Name) {
			continue
		}
		turns = append(turns, contender{
			stores: true, pair: p, start: starter(&p.Server), Contender: record.Contender{
				Name: p.Name, Version: p.Client.Version, Build: p.Client.Build + "+" + p.Server.Build,
				Client: p.Client.Name, Note: pairNote(p),
			},
		})
	}
	return turns
}

func pairNote(p *peer.Pair) string {
	note := fmt.Sprintf("from %s %s", p.Server.Name, p.Server.Version)
	if p.Client.Note != "" {
		note += "; " + p.Client.Note
	}
	return note
}
