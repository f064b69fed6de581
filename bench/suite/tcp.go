package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// These are the names of the contenders in TCP scenarios. A contender takes part only if it can
// send the answer: see peer.Trade.
var (
	// eachServers are measured with a connection for each request. They include servers with and
	// without DEFER_ACCEPT, because here the moment matters at which a server learns of a
	// connection.
	eachServers = []string{
		"haul", "haul without DEFER_ACCEPT", eventServer, "haul events without DEFER_ACCEPT", "haul portable", "haul under net/http",
		"tcpserver", "tcpserver DEFER_ACCEPT", "gnet", "evio", "fasthttp", "net/http", "netpoll", "goroutine pool", "goroutines",
		"floor-tcp", "floor-tcp DEFER_ACCEPT",
	}
	keepServers = []string{
		"haul", eventServer, "haul portable", "haul under net/http",
		"tcpserver", "gnet", "evio", "fasthttp", "net/http", "netpoll", "goroutine pool", "goroutines", "floor-tcp",
	}
	fileServers = []string{"haul serve", "haul under net/http", "nginx", "net/http", "floor-tcp"}
)

// eventServer is the name of haul without a goroutine for each connection. It cannot sleep before
// an answer.
const eventServer = "haul events"

// fileGroup is the group of scenarios in which files are fetched.
const fileGroup = "http-file"

// These constants describe the load of document 4's tests, and of a file server.
const (
	tcpClients = 1000
	tcpLength  = 4 * time.Second
	tcpWarmup  = time.Second

	// control is the congestion control of all TCP scenarios. It is Linux's default. It is set
	// because the machine may have another default, which would affect the measurements: over
	// loopback, bbr needs a multiple of the CPU time.
	control = "cubic"

	// fileTransfers is how many times a large file is fetched on one connection. One transfer,
	// which takes a tenth of a second, would be too short.
	fileTransfers = 8
)

// tcpScenarios returns all TCP scenarios.
func tcpScenarios() []Scenario {
	all := document4(tcpClients, tcpLength)
	all = append(all, tcpIdle(1000), tcpIdle(10_000))
	all = append(all, httpFile(256*miB, fileTransfers, false), httpFile(256*miB, fileTransfers, true))
	return append(all, httpScenarios()...)
}

// tcpSmoke returns a small scenario of each kind, for haul alone.
func tcpSmoke() []Scenario {
	all := []Scenario{tcpIdle(50)}
	for _, s := range document4(20, time.Second) {
		if slices.Contains([]string{"tcp-each-1kB", "tcp-tls-keep-1kB", "tcp-aes-each-1kB", "tcp-sleep-keep-128B"}, s.Name) {
			all = append(all, s)
		}
	}
	for i := range all {
		all[i].Who.names = []string{"haul"}
	}
	for _, encrypted := range []bool{false, true} {
		s := httpFile(1*miB, 2, encrypted)
		s.Who.names = fileServers[:2]
		all = append(all, s)
	}
	return append(all, httpSmoke()...)
}

// document4 returns the scenarios of document 4's tests, with the given number of simultaneous
// clients.
func document4(clients int, length time.Duration) []Scenario {
	const kB, large, small = 1024, 16 * 1024, 128
	each, tls, encrypted := record.Requests{Close: true}, record.Requests{TLS: true}, record.Requests{Encrypted: true}
	eachTLS, eachEncrypted := tls, encrypted
	eachTLS.Close, eachEncrypted.Close = true, true
	all := []Scenario{
		tcpLoad("each-1kB", "1 kB", kB, each),
		tcpLoad("keep-1kB", "1 kB", kB, record.Requests{}),
		tcpLoad("tls-each-1kB", "1 kB over TLS", kB, eachTLS),
		tcpLoad("tls-keep-1kB", "1 kB over TLS", kB, tls),
		tcpLoad("aes-each-1kB", "1 kB, encrypted by AES-128-CBC", kB, eachEncrypted),
		tcpLoad("aes-keep-1kB", "1 kB, encrypted by AES-128-CBC", kB, encrypted),
		tcpLoad("sleep-keep-128B", "128 bytes after a millisecond", small, record.Requests{Delay: 1}),
		tcpLoad("each-16kB", "16 kB", large, each),
	}
	for i := range all {
		s := &all[i]
		s.Concurrency, s.Length, s.Guess = clients, length.Seconds(), length+tcpWarmup+2*time.Second
		how := "kept open"
		if s.Close {
			how = "a new one for each request"
		}
		s.Title = fmt.Sprintf("%s, %d connections at the same time, %s", s.Title, clients, how)
	}
	return all
}

// tcpScenario returns a scenario with the values that all TCP scenarios have in common.
func tcpScenario(group, name, title string, size int64, r record.Requests) Scenario {
	r.Pinned, r.Control = true, control
	return Scenario{Scenario: record.Scenario{
		Name: name, Group: group, Title: title, Protocol: record.TCP, Fresh: true, Warmups: 1,
		Load: record.Load{Size: size}, Requests: r,
	}}
}

func tcpLoad(name, title string, size int64, r record.Requests) Scenario {
	s := tcpScenario("tcp", "tcp-"+name, title, size, r)
	s.act = requests
	if s.Who.names = keepServers; r.Close {
		s.Who.names = eachServers
	}
	if r.Delay > 0 {
		s.Who.names = slices.DeleteFunc(slices.Clone(s.Who.names), func(name string) bool { return name == eventServer })
	}
	return s
}

// tcpIdle returns a scenario with n open connections that send nothing.
func tcpIdle(n int) Scenario {
	s := tcpScenario("tcp-idle", fmt.Sprintf("tcp-idle-%d", n), fmt.Sprintf("%d connections that are idle, each after one request", n), 1024, record.Requests{Idle: true})
	s.Concurrency, s.Transfers, s.Guess = n, n, 6*time.Second
	s.Who.names, s.act = keepServers, idle
	return s
}

// httpFile returns the scenario in which one large file is fetched several times on one connection.
func httpFile(size int64, transfers int, tls bool) Scenario {
	name, what := "http-file", "HTTP"
	if tls {
		name, what = "https-file", "HTTPS"
	}
	s := tcpScenario(fileGroup, name, fmt.Sprintf("%d times %s by %s, one after the other", transfers, binarySize(size), what), size, record.Requests{TLS: tls})
	s.Concurrency, s.Transfers, s.Guess = 1, transfers, 6*time.Second
	s.Who.names, s.act = fileServers, files
	return s
}

// streamsFor returns the contenders that take part in a TCP scenario.
func streamsFor(sc Scenario, set peer.Set) (turns []contender) {
	generator := peer.TCPLoad
	if t, ok := set.Tool(peer.Wrk); ok {
		generator = peer.Wrk + " " + t.Version
	}
	var wanted peer.Answer
	if sc.TLS {
		wanted.Cert = "some"
	}
	if sc.servesFiles() {
		wanted.File = "some"
	}
	if sc.Group == fileGroup {
		generator = peer.Curl
	}
	for i := range set.Streams {
		p := &set.Streams[i]
		if !slices.Contains(sc.Who.names, asHaul(p.Name)) || !p.Trade.Does(wanted) {
			continue
		}
		turns = append(turns, contender{start: starter(p), trade: p.Trade, Contender: record.Contender{
			Name: p.Name, Version: p.Version, Build: p.Build, Note: p.Note, Floor: p.Floor, Client: generator,
		}})
	}
	if sc.servesFiles() {
		callHaul(turns, "haul")
		callHaul(turns, beforeName)
	}
	return turns
}

// callHaul gives the best file server of a build of haul the name `build`. This is the server of
// haul's command or, without it, the program of the suite with the same package.
func callHaul(turns []contender, build string) {
	for _, name := range fileServers[:2] {
		for i := range turns {
			if turns[i].Name == strings.Replace(name, "haul", build, 1) {
				turns[i].Name = build
				return
			}
		}
	}
}
