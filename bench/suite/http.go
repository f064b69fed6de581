package suite

import (
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// smallFileGroup is the group of scenarios in which one small file is requested repeatedly.
const smallFileGroup = "http-small"

// smallFileClients is the number of connections that request small files at the same time: as many
// as one browser page makes, or a rack of machines that install themselves.
const smallFileClients = 64

// webServers names the servers in the scenarios with HTTP/2 or with small files.
var webServers = append(slices.Clip(fileServers), "caddy")

// httpScenarios returns the scenarios with HTTP file servers, except those with a large file over
// HTTP/1.1.
func httpScenarios() []Scenario {
	return []Scenario{http2File(256*miB, fileTransfers), smallFile(tcpLength, smallFileClients)}
}

// httpSmoke returns small HTTP scenarios.
func httpSmoke() []Scenario {
	all := []Scenario{http2File(1*miB, 2), smallFile(time.Second, 4)}
	for i := range all {
		all[i].Who.names = fileServers[:2]
	}
	return all
}

// http2File returns the scenario in which one large file is fetched over HTTP/2 several times, on
// one connection.
func http2File(size int64, transfers int) Scenario {
	s := httpFile(size, transfers, true)
	s.Name, s.HTTP2 = "https-file-h2", true
	s.Title = fmt.Sprintf("%d times %s by HTTP/2 over TLS, one after the other", transfers, binarySize(size))
	s.Who.names = webServers
	return s
}

// smallFile returns the scenario in which a file of 1 kB is fetched over HTTP/1.1 repeatedly, on
// connections that are kept open.
func smallFile(length time.Duration, clients int) Scenario {
	s := tcpScenario(smallFileGroup, "http-small-keep", fmt.Sprintf("A file of 1 kB by HTTP, %d connections at the same time, kept open", clients), kiB, record.Requests{})
	s.Concurrency, s.Length, s.Guess = clients, length.Seconds(), length+tcpWarmup+2*time.Second
	s.Who.names, s.act = webServers, requests
	return s
}
