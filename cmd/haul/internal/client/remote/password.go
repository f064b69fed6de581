package remote

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/web/webclient"
)

// maxSecretFile bounds a file of certificates or of a password, in bytes.
const maxSecretFile = 4 << 20

// readBounded reads a file of up to maxSecretFile bytes. The file may be a pipe.
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

// netrcFile returns the path in NETRC, or else the path of ~/.netrc. It returns "" if there is no
// home directory.
func netrcFile(cfg *Config) string {
	if name := os.Getenv("NETRC"); name != "" {
		return name
	}
	base := ".netrc"
	if runtime.GOOS == "windows" {
		base = "_netrc"
	}
	if cfg.Account != nil {
		return filepath.Join(cfg.Account.HomeDir, base)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, base)
}

// fromNetrc looks up a host in a netrc file. The file may be missing.
func fromNetrc(name, host, user string) (login, password string, ok bool, err error) {
	f, err := os.Open(name)
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, webclient.MaxNetrc+1))
	if err == nil {
		login, password, ok, err = webclient.Netrc(text, host, user)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return login, password, ok, err
}
