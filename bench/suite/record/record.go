// Package record defines the content of a results file: one JSON object per line. Each is the
// result of one scenario with one contender in one round, with all information that is needed to
// read it alone. The suite appends each line at once, so an interrupted run keeps its results;
// the report is made from nothing else.
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

// maxLine bounds the length of a line in bytes. A line has some two dozen figures, and the end of
// a server's output if it failed.
const maxLine = 1 << 20

// A Line is one measurement, or the reason why a program was not measured.
type Line struct {
	Format int    `json:"format"`
	Run    string `json:"run"`  // when the run began; the same in all of its lines
	Time   string `json:"time"` // when this measurement ended, RFC 3339, UTC

	Environment
	Scenario  Scenario  `json:"scenario"`
	Contender Contender `json:"contender"`
	Round     int       `json:"round"` // from 0; -1 if the contender took no part

	Figures map[Metric]float64 `json:"figures,omitempty"`
	// Series holds the MB that crossed the wire in each SeriesStep from the first data on.
	Series   []float64 `json:"series,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
	Error    string    `json:"error,omitempty"`  // why the measurement failed
	Absent   string    `json:"absent,omitempty"` // why it was not tried
}

// Environment is what the figures depend on, apart from the programs.
type Environment struct {
	Commit     string `json:"commit"`  // of the tree, as git describes it
	Machine    string `json:"machine"` // name of the processor
	Cores      int    `json:"cores"`
	MemoryMB   int64  `json:"memory_mb"` // 10^6 bytes
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`                  // version that compiled the suite
	Congestion string `json:"congestion"`          // TCP's congestion control, the same for all contenders
	Storage    string `json:"storage"`             // file system of the served directory
	Generator  string `json:"generator,omitempty"` // build of haul that makes the loads, as in Contender
}

// A Scenario describes what was measured, with every parameter.
type Scenario struct {
	Name  string `json:"name"`  // unique: "many-100-1MB"
	Group string `json:"group"` // scenarios that are shown together: "many"
	Title string `json:"title"` // for people
	Load
	Requests
	Protocol  string  `json:"protocol,omitempty"`      // empty means TFTP
	RoundTrip float64 `json:"round_trip_ms,omitempty"` // of the link, if scenarios are ordered by it

	Link   string `json:"link,omitempty"`   // profile of the emulated link; empty means loopback
	Beside string `json:"beside,omitempty"` // the other work of the server
	// Share is the limit of the server, as a share of one core; 0 means no limit.
	Share float64 `json:"server_core_share,omitempty"`
	// Untuned means that haul get, without any flag, is measured instead of the load generator.
	Untuned bool `json:"untuned,omitempty"`
	Fresh   bool `json:"fresh"`   // the server was started anew for each measurement
	Warmups int  `json:"warmups"` // transfers made before, which do not count
}

// Load is what the clients do. The zero value of a field means that the clients do not request an
// option, or have no limit.
type Load struct {
	Concurrency int     `json:"concurrency"`
	Transfers   int     `json:"transfers"`
	Size        int64   `json:"size"` // bytes of each file
	Write       bool    `json:"write,omitempty"`
	NoOptions   bool    `json:"no_options,omitempty"`
	BlockSize   int     `json:"blksize,omitempty"`    // bytes requested
	Window      int     `json:"windowsize,omitempty"` // blocks requested
	Loss        float64 `json:"loss,omitempty"`       // share that the clients drop, each way
	Seed        uint64  `json:"seed,omitempty"`
	Rate        float64 `json:"rate,omitempty"`   // transfers begun in each second
	Buffer      int     `json:"buffer,omitempty"` // bytes that a program reads or writes at once
}

// Requests are what the clients of a TCP scenario do. Load's Concurrency is the number of their
// connections, and its Size the bytes of an answer.
type Requests struct {
	Close     bool    `json:"close,omitempty"`          // a new connection for each request
	TLS       bool    `json:"tls,omitempty"`            // 1.3, ECDSA with P-256, X25519, no session resumption
	HTTP2     bool    `json:"http2,omitempty"`          // instead of 1.1
	Encrypted bool    `json:"encrypted,omitempty"`      // each answer is encrypted with AES-128-CBC
	Delay     float64 `json:"delay_ms,omitempty"`       // before each answer
	Length    float64 `json:"length_seconds,omitempty"` // of the load
	Idle      bool    `json:"idle,omitempty"`           // after one request each, connections only stay open
	Pinned    bool    `json:"pinned,omitempty"`         // the server has one core, and its clients another
	// Control is the congestion control of both sides, set for their network namespace.
	Control string `json:"tcp_congestion,omitempty"`
}

// A Contender is what was measured.
type Contender struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Build   string `json:"build,omitempty"`  // beginning of the program's SHA-256
	Client  string `json:"client,omitempty"` // empty means haul's load generator
	Server  string `json:"server,omitempty"` // if the client is what is measured
	Note    string `json:"note,omitempty"`
	Floor   bool   `json:"floor,omitempty"` // a yardstick without a protocol's duties
}

// Append writes a line at the end of a results file.
func Append(w io.Writer, l Line) error {
	l.Format = Format
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("results of %s with %s: %w", l.Contender.Name, l.Scenario.Name, err)
	}
	_, err = w.Write(append(b, '\n')) // in one piece, so that a signal never leaves half a line
	return err
}

// A Series has a figure for each SeriesStep, for up to SeriesTime.
const (
	SeriesStep = 100 * time.Millisecond
	SeriesTime = 3 * time.Second
)

// The protocols of scenarios other than TFTP.
const (
	SFTP = "sftp"
	TCP  = "tcp" // TCP servers, which speak HTTP
)

// Saturated begins a warning that the load generator, and not the server, was
// the bottleneck.
const Saturated = "the load generator was the bottleneck"

// ErrOldFormat is returned for a file with lines of another version.
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
// length in bytes. After these there is at most an incomplete line of a killed run, which is to
// be cut off. A missing file has no lines.
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
