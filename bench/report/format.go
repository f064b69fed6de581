package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// none is the text in place of a missing figure.
const none = "-"

// figure formats a number with at least three significant digits.
func figure(f float64) string {
	if !finite(f) {
		return none
	}
	switch a := math.Abs(f); {
	case a == 0:
		return "0"
	case a >= 99.95:
		return whole(f)
	case a >= 9.995:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(f, 'f', 2, 64)
	case a >= 0.001:
		return strconv.FormatFloat(f, 'f', 3, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// whole formats a number without a fraction, and separates thousands with commas.
func whole(f float64) string {
	if !finite(f) {
		return none
	}
	s := strconv.FormatFloat(math.Abs(f), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if f < 0 && s != "0" {
		s = "-" + s
	}
	return s
}

// times formats a ratio, such as "1.50 x".
func times(f float64) string {
	if !finite(f) {
		return none
	}
	return figure(f) + " x"
}

// percent formats a share of 1 as a percentage.
func percent(f float64) string {
	if !finite(f) {
		return none
	}
	return strconv.FormatFloat(f*100, 'f', 1, 64) + " %"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxText is the length, in runes, to which texts in a table are shortened, such as a server's last
// output.
const maxText = 200

// shorten joins a text into one line, and truncates it if it is long.
func shorten(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > maxText {
		r = append(r[:maxText-1], '…')
	}
	return string(r)
}

// A unit describes how to show a metric.
type unit struct {
	what   string // name of the metric in words
	short  string // name of the unit, as the title of a column
	higher bool   // higher values are better
	show   func(float64) string
}

var units = map[record.Metric]unit{
	record.Seconds:          {what: "time for all", short: "s"},
	record.SecondsPerFile:   {what: "time for a file", short: "s a file"},
	record.Rate:             {what: "throughput", short: "MB/s", higher: true},
	record.PacketRate:       {what: "DATA packets a second", short: "packets/s", higher: true, show: whole},
	record.Transfers:        {what: "transfers", short: "transfers", show: whole},
	record.FileRate:         {what: "files a second", short: "files/s", higher: true},
	record.RequestRate:      {what: "requests a second", short: "requests/s", higher: true, show: whole},
	record.RoundTrips:       {what: "round trips", short: "round trips"},
	record.DataRate:         {what: "throughput of the data", short: "MB/s", higher: true},
	record.PacketsPerMB:     {what: "packets on the wire for a MB", short: "packets/MB", show: whole},
	record.CoresBusy:        {what: "CPU of client and server in a second", short: "cores busy"},
	record.Login:            {what: "time to the first data", short: "s"},
	record.ClientCPU:        {what: "client CPU", short: "CPU s"},
	record.ClientCPUPerGB:   {what: "client CPU for a GB", short: "CPU s/GB"},
	record.ClientMemory:     {what: "peak memory of the client", short: "MB"},
	record.Failed:           {what: "failed transfers", short: "failed", show: whole},
	record.Resent:           {what: "packets that clients repeated", short: "resent", show: whole},
	record.Timeouts:         {what: "timeouts of clients", short: "timeouts", show: whole},
	record.LatencyP50:       {what: "time of the middle transfer", short: "p50 ms"},
	record.LatencyP99:       {what: "time that 99 % of the transfers keep within", short: "p99 ms"},
	record.LatencyMax:       {what: "time of the slowest transfer", short: "max ms"},
	record.ServerCPU:        {what: "server CPU", short: "CPU s"},
	record.CPUPerPacket:     {what: "server CPU for a DATA packet", short: "us/packet"},
	record.CPUPerRequest:    {what: "server CPU for a request", short: "us/request"},
	record.CPUPerGB:         {what: "server CPU for a GB", short: "CPU s/GB"},
	record.GigabitsPerCore:  {what: "throughput of one core of the server", short: "Gb/s a core", higher: true},
	record.Memory:           {what: "peak memory of the server", short: "MB"},
	record.IdleMemory:       {what: "memory of the server with idle connections", short: "MB"},
	record.IdlePerConn:      {what: "memory of an idle connection", short: "kB/connection"},
	record.IdleBeyondStacks: {what: "memory of an idle connection beyond stacks", short: "kB beyond stacks"},
	record.GeneratorCPU:     {what: "CPU of the load generator", short: "generator", show: percent},
	record.LinkCPU:          {what: "CPU of the link", short: "link CPU", show: percent},
	record.BesideRate:       {what: "disturbance", short: "disturbance/s", higher: true},
	record.CycleProfile:     {what: "block and ACK, by the profile", short: "profile ms"},
	record.CycleP50:         {what: "block and ACK, the middle one", short: "p50 ms"},
	record.CycleP99:         {what: "block and ACK, 99 % of them", short: "p99 ms"},
	record.CycleOff:         {what: "median against the profile", short: "off by %"},
	record.LinkRate:         {what: "1500-byte packets", short: "Mb/s"},
	record.LinkRateProfile:  {what: "1500-byte packets, by the profile", short: "of Mb/s"},
	record.Ping:             {what: "ping", short: "ping ms"},
	record.IPerf3:           {what: "iperf3", short: "iperf3 Mb/s"},
	record.Bound:            {what: "bound", short: "bound MB/s", higher: true},
	record.ShareOfBound:     {what: "share of the bound", short: "of the bound", higher: true, show: percent},
}

func unitOf(m record.Metric) unit {
	u, ok := units[m]
	if !ok {
		u = unit{what: string(m), short: string(m)}
	}
	if u.show == nil {
		u.show = figure
	}
	return u
}
