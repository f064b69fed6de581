package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"
)

// A Recorder is a Tracer that owns the file it writes pcapng to, if any.
type Recorder struct {
	*Tracer
	file *os.File // nil without one
	path string
}

// NewRecorder begins a trace. It creates the file at path, which takes the place of
// c.Pcap; "" means none.
func NewRecorder(c Config, path string) (*Recorder, error) {
	r := &Recorder{path: path}
	if path != "" {
		file, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		r.file, c.Pcap = file, file
	}
	r.Tracer = New(c)
	return r, nil
}

// Datagram records one, as the hooks of servers and clients report it.
func (r *Recorder) Datagram(at time.Time, sent bool, peer, local netip.AddrPort, data []byte) {
	r.Record(Packet{Time: at, Sent: sent, Peer: peer, Local: local, Data: data})
}

// Finish ends the trace. It returns what is missing from it.
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
