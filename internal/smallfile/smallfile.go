// Package smallfile reads files that have to be small and regular, such as those that
// hold rules or keys.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Read reads a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path) // first: opening a pipe waits for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b, err
}
