package remote

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// maxSecretFile is the maximum size of a file of certificates, or of a file with a password, in
// bytes.
const maxSecretFile = 4 << 20

// readBounded reads a file of at most maxSecretFile bytes. The file may be a pipe.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(text) > maxSecretFile {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", maxSecretFile)}
	}
	return text, err
}

// PasswordIn returns the password in the first line of a file, or "" if name is "".
func PasswordIn(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	text, err := readBounded(name)
	if err != nil {
		return "", failure.Local.Errorf("--password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", failure.Local.Errorf("--password-file %s: the first line is empty", console.Visible(name))
	}
	return line, nil
}
