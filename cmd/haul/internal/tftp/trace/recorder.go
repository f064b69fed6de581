package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/internal/ownfile"
)

// A Recorder is a Tracer that owns its pcapng file, if it writes one.
type Recorder struct {
	*Tracer
	file *os.File // nil if there is no such file
	path string
}

// A Setup says what a [Recorder] records, and where.
type Setup struct {
	Text     bool           // write the trace as text
	Pcap     string         // the file to write as pcapng; "" means none
	Only     []netip.Prefix // the peers to trace; empty means all
	HexBytes int            // how many bytes of each packet the text shows in hexadecimal
}

// Open begins a trace, and writes its text to out. It returns nil if there is nothing to record. An
// error means that the file cannot be created, or that another user may have put it there: see
// [ownfile.Create].
func (s Setup) Open(out io.Writer) (*Recorder, error) {
	if !s.Text && s.Pcap == "" {
		return nil, nil
	}
	c := Config{Only: s.Only, HexBytes: s.HexBytes}
	if s.Text {
		c.Text = out
	}
	r := &Recorder{path: s.Pcap}
	if s.Pcap != "" {
		file, err := ownfile.Create(s.Pcap)
		if err != nil {
			return nil, err
		}
		r.file, c.Pcap = file, file
	}
	r.Tracer = New(c)
	return r, nil
}

// Datagram records a datagram. It is meant as the hook that servers and clients call for each
// datagram.
func (r *Recorder) Datagram(at time.Time, sent bool, peer, local netip.AddrPort, data []byte) {
	r.Record(Packet{Time: at, Sent: sent, Peer: peer, Local: local, Data: data})
}

// Finish ends the trace. If the trace is not complete, the errors say why.
func (r *Recorder) Finish() (problems []error) {
	if err := r.Close(); err != nil {
		problems = append(problems, fmt.Errorf("trace: %w", err))
	}
	if r.file == nil {
		return problems
	}
	if err := r.file.Close(); err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		problems = append(problems, fmt.Errorf("write %s: %w", r.path, err))
	}
	if n := r.Lost(); n > 0 {
		problems = append(problems, fmt.Errorf("%s lacks %d packets, for which the disk was too slow", r.path, n))
	}
	return problems
}
