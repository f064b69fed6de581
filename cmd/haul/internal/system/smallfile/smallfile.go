// Package smallfile reads files that must be small and regular, such as files with rules or keys.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// Read reads a regular file that has at most `most` bytes.
func Read(path string, most int64) ([]byte, error) { return read(path, most, 0) }

// ReadTrusted does the same as Read, for a file whose content controls the program. It refuses a
// file to which users other than its owner and group may write. On Windows it does not check that,
// because there the mode of a file does not show who may write.
func ReadTrusted(path string, most int64) ([]byte, error) { return read(path, most, 0o002) }

func read(path string, most int64, forbidden fs.FileMode) ([]byte, error) {
	info, err := os.Stat(path) // check the type before opening, because opening a pipe would wait for a writer
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
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); perm&forbidden != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("everybody may write to it (mode %04o): chmod o-w %s", perm, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b, err
}
