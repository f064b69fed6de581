// Package record defines the content of a results file: one JSON object per line. Each line is the
// result of one scenario with one contender in one round, and can be understood without the other
// lines. The suite appends each line at once, so an interrupted run keeps its results. The report
// is made only from these lines.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Format is the version of the lines that this package writes and reads.
const Format = 2

// maxLine is the largest length of a line in bytes. A line has some two dozen figures, and the end
// of a server's output if it failed.
const maxLine = 1 << 20

// A Line is one measurement, or the reason why a program was not measured.
type Line struct {
	Format int    `json:"format"`
	Run    string `json:"run"`  // when the run began; the same in all lines of the run
	Time   string `json:"time"` // when this measurement ended, in UTC, in the format of RFC 3339

	Environment
	Scenario  Scenario  `json:"scenario"`
	Contender Contender `json:"contender"`
	Round     int       `json:"round"` // number of the round, from 0; -1 if the contender took no part

	Figures map[Metric]float64 `json:"figures,omitempty"`
	// Series holds the MB that crossed the wire in each SeriesStep from the first data on.
	Series   []float64 `json:"series,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
	Error    string    `json:"error,omitempty"`  // reason why the measurement failed
	Absent   string    `json:"absent,omitempty"` // reason why the measurement was not tried
}

// Environment describes the conditions on which the figures depend, apart from the programs.
type Environment struct {
	Commit     string `json:"commit"`  // commit of the source tree, as git describes it
	Machine    string `json:"machine"` // name of the processor
	Cores      int    `json:"cores"`
	MemoryMB   int64  `json:"memory_mb"` // memory of the machine, in 10^6 bytes
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`                  // version of Go that compiled the suite
	Congestion string `json:"congestion"`          // TCP's congestion control, the same for all contenders
	Storage    string `json:"storage"`             // file system of the served directory
	Generator  string `json:"generator,omitempty"` // build of the haul that makes the loads: see Contender.Build
}

// A Scenario describes what was measured, with every parameter.
type Scenario struct {
	Name  string `json:"name"`  // unique name, such as "many-100-1MB"
	Group string `json:"group"` // name of the group of scenarios that are shown together, such as "many"
	Title string `json:"title"` // title for people
	Load
	Requests
	Protocol  string  `json:"protocol,omitempty"`      // empty means TFTP
	RoundTrip float64 `json:"round_trip_ms,omitempty"` // round trip of the link, if scenarios are ordered by it

	Link   string `json:"link,omitempty"`   // profile of the emulated link; empty means loopback
	Beside string `json:"beside,omitempty"` // name of the server's other work; may be empty
	// Share limits the CPU time of the server, as a share of one core; 0 means no limit.
	Share float64 `json:"server_core_share,omitempty"`
	// Untuned means that haul get, without any flag, is measured instead of the load generator.
	Untuned bool `json:"untuned,omitempty"`
	Fresh   bool `json:"fresh"`   // the server was started again for each measurement
	Warmups int  `json:"warmups"` // number of transfers before the measurement, which do not count
}

// Load describes the transfers that the clients make. If a field is zero, the clients do not
// request this option, or have no such limit.
type Load struct {
	Concurrency int     `json:"concurrency"`
	Transfers   int     `json:"transfers"`
	Size        int64   `json:"size"` // size of each file in bytes
	Write       bool    `json:"write,omitempty"`
	NoOptions   bool    `json:"no_options,omitempty"`
	BlockSize   int     `json:"blksize,omitempty"`    // requested block size, in bytes
	Window      int     `json:"windowsize,omitempty"` // requested windowsize, in blocks
	Loss        float64 `json:"loss,omitempty"`       // share of packets, 0 to 1, that the clients drop each way
	Seed        uint64  `json:"seed,omitempty"`
	Rate        float64 `json:"rate,omitempty"`   // transfers begun per second
	Buffer      int     `json:"buffer,omitempty"` // size of the buffer through which a program reads or writes, in bytes
}

// Requests describes the requests of the clients in a TCP scenario. Load.Concurrency is the number
// of their connections, and Load.Size is the size of an answer in bytes.
type Requests struct {
	Close     bool    `json:"close,omitempty"`          // the clients open a new connection for each request
	TLS       bool    `json:"tls,omitempty"`            // TLS 1.3 with ECDSA P-256, X25519, no session resumption
	HTTP2     bool    `json:"http2,omitempty"`          // the clients use HTTP/2 instead of HTTP/1.1
	Encrypted bool    `json:"encrypted,omitempty"`      // each answer is encrypted with AES-128-CBC
	Delay     float64 `json:"delay_ms,omitempty"`       // how long the server waits before each answer
	Length    float64 `json:"length_seconds,omitempty"` // duration of the load
	Idle      bool    `json:"idle,omitempty"`           // connections only stay open, after one request on each
	Pinned    bool    `json:"pinned,omitempty"`         // the server runs on one core, and its clients run on another
	// Control is the congestion control of both sides. It is set for their network namespace.
	Control string `json:"tcp_congestion,omitempty"`
}

// A Contender describes the program that was measured.
type Contender struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Build   string `json:"build,omitempty"`  // beginning of the program's SHA-256
	Client  string `json:"client,omitempty"` // name of the client; "" means haul's load generator
	Server  string `json:"server,omitempty"` // name of the server, if the client is the program that is measured
	Note    string `json:"note,omitempty"`
	Floor   bool   `json:"floor,omitempty"` // the program is a yardstick, which leaves out duties that its protocol demands
}

// Append writes a line at the end of a results file.
func Append(w io.Writer, l Line) error {
	l.Format = Format
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("results of %s with %s: %w", l.Contender.Name, l.Scenario.Name, err)
	}
	_, err = w.Write(append(b, '\n')) // in one call, so that a signal never leaves half a line in the file
	return err
}

// Line.Series has an element for each SeriesStep, for up to SeriesTime.
const (
	SeriesStep = 100 * time.Millisecond
	SeriesTime = 3 * time.Second
)

// The protocols of scenarios, except TFTP.
const (
	SFTP = "sftp"
	TCP  = "tcp" // TCP servers, which speak HTTP
)

// Saturated is the beginning of the warning that the load generator, and not the server, was the
// bottleneck.
const Saturated = "the load generator was the bottleneck"

// ErrOldFormat is the error for a file with lines of another version than Format.
var ErrOldFormat = errors.New("lines of another format")

// Read returns the lines of a results file.
func Read(path string) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	defer f.Close()
	lines, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("results in %s: %w", path, err)
	}
	return lines, nil
}

// ReadSoFar reads a results file that is to be appended to. It returns the lines and their total
// length in bytes. After that length, the file contains at most an incomplete line of a killed run,
// which is to be cut off. For a missing file, ReadSoFar returns no lines.
func ReadSoFar(path string) ([]Line, int64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("results: %w", err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	lines, err := read(bytes.NewReader(b))
	if err != nil {
		return nil, 0, fmt.Errorf("results in %s: %w", path, err)
	}
	return lines, int64(len(b)), nil
}

func read(r io.Reader) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for n := 1; s.Scan(); n++ {
		var version struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(s.Bytes(), &version); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if version.Format != Format {
			return nil, fmt.Errorf("line %d has format %d, and this program reads %d: %w", n, version.Format, Format, ErrOldFormat)
		}
		var l Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		lines = append(lines, l)
	}
	return lines, s.Err()
}
