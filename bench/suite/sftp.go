package suite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

const (
	kiB = 1 << 10
	miB = 1 << 20
)

// distances lists the links for SFTP measurements, each with the size of a large file. Even a
// client that moves at most 2 MiB in each round trip should not take minutes for this file.
var distances = []struct {
	name, profile string
	size          int64
}{
	{"rtt0", "", 256 * miB},
	{"rtt9", "rtt9", 256 * miB},
	{"rtt20", "rtt20", 256 * miB},
	{"rtt100", "rtt100", 256 * miB},
}

// These are the names of the contenders in the various kinds of SFTP scenarios.
var (
	fileClients = []string{
		"haul", "haul to haul", "OpenSSH sftp", "OpenSSH sftp -R 256 -B 261120",
		"pkg/sftp", "pkg/sftp to pkg/sftp", "lftp", "lftp pget -n 4", "rclone", "mscp",
	}
	rampClients   = []string{"haul", "haul to haul", "OpenSSH sftp", "pkg/sftp", "lftp", "lftp pget -n 4", "rclone", "mscp"}
	tinyClients   = []string{"haul", "haul to haul", "OpenSSH sftp", "pkg/sftp", "pkg/sftp to pkg/sftp", "lftp", "rclone"}
	bufferClients = []string{"haul", "pkg/sftp", "pkg/sftp, concurrent writes"}
	treeClients   = []string{"haul", "haul to haul", "OpenSSH sftp", "lftp", "lftp mirror -P 8", "rclone"}
)

// buffers lists the sizes of the buffers through which programs read and write, in bytes.
var buffers = []int{1 * kiB, 16 * kiB, 32 * kiB, 128 * kiB, 1 * miB, 4 * miB}

const (
	bufferFile = 128 * miB
	bufferTime = 3 * time.Second // time after which a program stops reading or writing

	treeFiles, treeSize = 10_000, 4 * kiB

	// These are for a server with little CPU time, as in document 3, where clients got at most some
	// 40 MB/s.
	slowShare = 0.08 // share of one core that the server may use
	slowFile  = 500 * miB
)

// sftpScenarios returns all SFTP scenarios.
func sftpScenarios() []Scenario {
	var all []Scenario
	for _, write := range []bool{false, true} {
		for _, d := range distances {
			all = append(all, sftpFile(d.name, d.profile, d.size, write))
		}
		all = append(all, sftpRamp("rtt20", 1024*miB, write), sftpRamp("rtt100", 1024*miB, write))
	}
	all = append(all, sftpTiny("rtt0", ""), sftpTiny("rtt100", "rtt100"))
	for _, write := range []bool{false, true} {
		for _, d := range distances[:3] {
			for _, b := range buffers {
				all = append(all, sftpBuffer(d.name, d.profile, b, bufferFile, write))
			}
			all = append(all, sftpStream(d.name, d.profile, bufferFile, write), sftpWhole(d.name, d.profile, bufferFile, write))
		}
		all = append(all, sftpSlow(slowFile, write))
	}
	for _, write := range []bool{false, true} {
		all = append(all, sftpMany("rtt0", "", treeFiles, write), sftpMany("rtt20", "rtt20", treeFiles, write))
	}
	return append(all, document5()...)
}

// sftpSmoke returns a small scenario of each kind, for haul alone.
func sftpSmoke() []Scenario {
	all := []Scenario{
		sftpFile("rtt9", "rtt9", 4*miB, false), sftpFile("rtt0", "", 4*miB, true),
		sftpTiny("rtt9", "rtt9"),
		sftpBuffer("rtt9", "rtt9", 16*kiB, 4*miB, false), sftpBuffer("rtt0", "", 1*kiB, 1*miB, true),
		sftpStream("rtt0", "", 4*miB, false), sftpStream("rtt9", "rtt9", 4*miB, true), sftpWhole("rtt0", "", 4*miB, true),
	}
	for i := range all {
		all[i].Who.names = []string{"haul to haul"}
	}
	return all
}

// sftpScenario returns a scenario with the values that all SFTP scenarios have in common.
func sftpScenario(group, name, profile string, task peer.Task) Scenario {
	s := Scenario{
		Scenario: record.Scenario{Name: group + "-" + name, Group: group, Protocol: record.SFTP, Link: profile, Fresh: true},
		Guess:    4 * time.Second, task: task,
	}
	s.RoundTrip = roundTrip(profile)
	s.Concurrency, s.Transfers = 1, 1
	return s
}

// sftpFile returns a scenario with one large file, which is moved by the programs that people would
// use.
func sftpFile(name, profile string, size int64, write bool) Scenario {
	group, task := "sftp-get", peer.GetFile
	if write {
		group, task = "sftp-put", peer.PutFile
	}
	s := sftpScenario(group, name, profile, task)
	s.Title = fmt.Sprintf("%s %s by SFTP, %s", binarySize(size), wayOf(write), distanceOf(profile))
	s.Size, s.Write = size, write
	s.Who.names, s.act = fileClients, sftpTransfer
	return s
}

// sftpRamp returns a scenario with a file that takes longer than the connections need to reach
// their full speed. A slow client is stopped. Its figures are then computed from the bytes that it
// has moved so far.
func sftpRamp(distance string, size int64, write bool) Scenario {
	s := sftpFile(distance, distance, size, write)
	s.Group += "-ramp"
	s.Name = s.Group + "-" + distance
	s.Who.names, s.act = rampClients, sftpStart
	return s
}

// sftpTiny returns a scenario with a file of one byte, to count round trips.
func sftpTiny(name, profile string) Scenario {
	s := sftpScenario("sftp-tiny", name, profile, peer.GetFile)
	s.Title = "1 byte down by SFTP, with all that is around it, " + distanceOf(profile)
	s.Size = 1
	s.Who.names, s.act = tinyClients, sftpTransfer
	return s
}

// sftpBuffer returns a scenario in which a program reads or writes a file through a buffer.
func sftpBuffer(name, profile string, buffer int, size int64, write bool) Scenario {
	group, what, task := "sftp-read", "File.Read", peer.ReadFile
	if write {
		group, what, task = "sftp-write", "File.Write", peer.WriteFile
	}
	s := sftpScenario(group, name+"-"+binaryName(int64(buffer)), profile, task)
	s.Title = fmt.Sprintf("%s with %s, %s", what, binarySize(int64(buffer)), distanceOf(profile))
	s.Size, s.Write, s.Buffer = size, write, buffer
	s.Who.names, s.act = bufferClients, sftpBuffers
	if !write {
		s.Who.names = bufferClients[:2]
	}
	return s
}

// sftpStream returns a scenario in which a program copies a file to or from a stream with io.Copy,
// by File.WriteTo or File.ReadFrom.
func sftpStream(name, profile string, size int64, write bool) Scenario {
	s := sftpBuffer(name, profile, kiB, size, write)
	s.Buffer = 0
	s.Name, s.task = s.Group+"-"+name+"-stream", peer.StreamFrom
	what := "File.WriteTo"
	if s.Who.names = bufferClients[:2]; write {
		s.task, what = peer.StreamTo, "File.ReadFrom"
	}
	s.Title = fmt.Sprintf("%s, %s by %s, %s", binarySize(size), wayOf(write), what, distanceOf(profile))
	return s
}

// sftpWhole returns a scenario in which the library moves the same file as a whole, for comparison
// with the library's buffers.
func sftpWhole(name, profile string, size int64, write bool) Scenario {
	s := sftpStream(name, profile, size, write)
	s.Name = s.Group + "-" + name + "-whole"
	if s.task = peer.FetchFile; write {
		s.task = peer.FillFile
	}
	s.Title = fmt.Sprintf("%s %s as a whole, by the library, %s", binarySize(size), wayOf(write), distanceOf(profile))
	return s
}

// sftpSlow returns a scenario with a large file and a server with a small share of a core.
func sftpSlow(size int64, write bool) Scenario {
	s := sftpFile("slow", "", size, write)
	s.Share = slowShare
	s.Name, s.Group = "sftp-slow-"+wayOf(write), "sftp-slow"
	s.Title = fmt.Sprintf("%s %s by SFTP, the server has %g %% of a core", binarySize(size), wayOf(write), slowShare*100)
	s.Who.names, s.act, s.Guess = tinyClients, sftpStart, rampTime
	return s
}

// sftpMany returns a scenario with many small files.
func sftpMany(name, profile string, files int, write bool) Scenario {
	group, task := "sftp-tree-get", peer.GetTree
	if write {
		group, task = "sftp-tree-put", peer.PutTree
	}
	s := sftpScenario(group, name, profile, task)
	s.Title = fmt.Sprintf("%d files of %s %s by SFTP, %s", files, binarySize(treeSize), wayOf(write), distanceOf(profile))
	s.Size, s.Write, s.Transfers = treeSize, write, files
	s.Who.names, s.act, s.Guess = treeClients, sftpTree, 20*time.Second
	return s
}

func wayOf(write bool) string {
	if write {
		return "up"
	}
	return "down"
}

// binarySize formats a size in units of 1024, and binaryName does the same without a space, for
// names.
func binarySize(bytes int64) string {
	if bytes%miB == 0 {
		return fmt.Sprintf("%d MiB", bytes/miB)
	}
	return fmt.Sprintf("%d KiB", bytes/kiB)
}

func binaryName(bytes int64) string {
	if bytes%miB == 0 {
		return fmt.Sprintf("%dMiB", bytes/miB)
	}
	return fmt.Sprintf("%dKiB", bytes/kiB)
}

// roundTrip returns the round trip of a profile in milliseconds, or 0 for loopback.
func roundTrip(profile string) float64 {
	p, err := link.Lookup(profile)
	if err != nil {
		return 0 // the measurement will report the wrong name
	}
	return (p.Ways[link.A].Delay + p.Ways[link.B].Delay).Seconds() * 1e3
}

func distanceOf(profile string) string {
	if profile == "" {
		return "over loopback"
	}
	p, err := link.Lookup(profile)
	if err != nil || p.Ways[link.A].Rate > 0 {
		return "over " + profile
	}
	return fmt.Sprintf("%g ms there and back, unlimited bandwidth", roundTrip(profile))
}

// errNoCommand is the reason why a build of haul does not take part in a task that needs a command.
var errNoCommand = errors.New("this build of haul has no command for it")

// pairsFor returns the contenders that take part in an SFTP scenario, and the contenders with haul
// that cannot do its task.
func pairsFor(sc Scenario, set peer.Set) (turns []contender, refused []refusal) {
	for i := range set.Pairs {
		p := &set.Pairs[i]
		switch {
		case !slices.Contains(sc.Who.names, asHaul(p.Name)):
		case p.Client.Does(sc.task):
			turns = append(turns, sc.contenders(p)...)
		case family(p.Name) == "haul":
			refused = append(refused, refusal{p.Name, errNoCommand})
		}
	}
	return turns, refused
}

// contenders returns the pair as a contender or, if the scenario compares several ways to use it, a
// contender for each way.
func (sc *Scenario) contenders(p *peer.Pair) []contender {
	c := contender{
		stores: true, pair: p, start: starter(&p.Server), Contender: record.Contender{
			Name: p.Name, Version: p.Client.Version, Build: p.Client.Build + "+" + p.Server.Build,
			Client: p.Client.Name, Note: pairNote(p),
		},
	}
	if len(sc.ways) == 0 {
		return []contender{c}
	}
	var all []contender
	for _, w := range sc.ways {
		one := c
		one.Name, one.tune, one.serverDelay = c.Name+", "+w.name, w.tune, w.serverDelay
		all = append(all, one)
	}
	return all
}

// An sftpWay is one of several ways to use an SFTP client that a scenario compares.
type sftpWay struct {
	name        string
	tune        func(*peer.SFTPJob)
	serverDelay bool // the server does not set TCP_NODELAY
}

func pairNote(p *peer.Pair) string {
	note := fmt.Sprintf("from %s %s", p.Server.Name, p.Server.Version)
	if p.Client.Note != "" {
		note += "; " + p.Client.Note
	}
	return note
}

// document5 returns the scenarios of document 5's experiment: with and without TCP_NODELAY, and
// with various numbers of overlapping 8 KiB requests. In the last way, haul chooses the size and
// the number of the requests itself. sshd always sets TCP_NODELAY, so for the server's side the
// experiment uses a server around package sftp.
func document5() []Scenario {
	var all []Scenario
	for _, by := range []struct {
		group, pair  string
		serverDelays []bool
	}{{"sftp-doc5", "haul", []bool{false}}, {"sftp-doc5-server", peer.LibraryPair, []bool{true, false}}} {
		for _, write := range []bool{false, true} {
			for _, at := range []struct {
				name, profile string
				size          int64
			}{{"rtt0", "", 64 * miB}, {"lan100m", "lan100m", 32 * miB}, {"rtt9", "rtt9", 64 * miB}} {
				s := sftpFile(at.name, at.profile, at.size, write)
				s.Group, s.Name = by.group, fmt.Sprintf("%s-%s-%s", by.group, wayOf(write), at.name)
				s.Who.names, s.ways, s.Guess, s.act = []string{by.pair}, document5Ways(by.serverDelays), briefTime, sftpBrief
				if s.task = peer.FetchFile; write {
					s.task = peer.FillFile
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// document5Ways returns a way for each combination of the number of overlapping requests, of
// TCP_NODELAY at the client, and of TCP_NODELAY at the server.
func document5Ways(serverDelays []bool) []sftpWay {
	var ways []sftpWay
	for _, requests := range []int{1, 2, 11, 0} {
		for _, serverDelay := range serverDelays {
			for _, delay := range []bool{true, false} {
				ways = append(ways, sftpWay{document5Name(requests, delay, serverDelay, len(serverDelays) > 1), func(j *peer.SFTPJob) {
					j.Delay, j.Requests = delay, requests
					if requests > 0 {
						j.RequestBytes = document5Request
					}
				}, serverDelay})
			}
		}
	}
	return ways
}

func document5Name(requests int, delay, serverDelay, bothSides bool) string {
	name := fmt.Sprintf("overlap %d", requests-1)
	if requests == 0 {
		name = "its own overlap"
	}
	switch {
	case !delay && !serverDelay && bothSides:
		return name + ", TCP_NODELAY on both sides"
	case !delay:
		return name + ", TCP_NODELAY"
	case !serverDelay && bothSides:
		return name + ", TCP_NODELAY at the server"
	}
	return name
}

// document5Request is the size of the requests of document 5's client, in bytes.
const document5Request = 8 * kiB
