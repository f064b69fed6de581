package proxydhcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// maxMemory is the largest size, in bytes, of the memory that is passed to a successor. It is
// enough for the latest 3,000 machines or so.
const maxMemory = 1 << 20

// appendMemory appends the remembered machines as JSON: one line for each machine, the latest
// machine first.
func (s *Server) appendMemory(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.decide.Memories() {
		line, err := json.Marshal(m)
		if err != nil || len(b)+len(line)+1 > maxMemory {
			break
		}
		b = append(append(b, line...), '\n')
	}
	return b
}

// restore takes over the memory of a predecessor. It skips lines that it cannot use, and returns an
// error with their number: the predecessor may be of another version, or have a bug.
func (s *Server) restore(memory []byte) error {
	var all []pxe.Memory
	var wrong error
	lines, bad := 0, 0
	for line := range bytes.Lines(memory) {
		lines++
		var m pxe.Memory
		if err := json.Unmarshal(line, &m); err != nil {
			bad, wrong = bad+1, err
			continue
		}
		all = append(all, m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, m := range slices.Backward(all) { // so that the latest machine is restored last
		if err := s.decide.Restore(now, m); err != nil {
			bad, wrong = bad+1, err
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d machines are not remembered: %w", bad, lines, wrong)
}

// readMemory reads the file that a predecessor wrote with appendMemory. It refuses anything but a
// regular file, because reading that could block.
func readMemory(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > maxMemory:
		return nil, fmt.Errorf("it has %d bytes, and %d are the most", info.Size(), maxMemory)
	}
	return io.ReadAll(io.NewSectionReader(f, 0, maxMemory))
}
