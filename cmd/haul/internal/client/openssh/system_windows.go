package openssh

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var systemDir = filepath.Join(os.Getenv("ProgramData"), "ssh")

// nonblock is 0: on Windows, pipes cannot be opened by a file name.
const nonblock = 0

// localName returns a user's name without the domain.
func localName(name string) string { return name[strings.LastIndexByte(name, '\\')+1:] }

// shell returns the path of the shell that runs the commands in the configuration.
func (sys *system) shell() (string, error) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		return "", errors.New("there is no sh to run commands with")
	}
	return sh, nil
}

// These functions return nil, because on Windows access lists hold the permissions, and the mode
// does not show them.
func (*system) checkConfigOwner(fs.FileInfo) error { return nil }
func checkKeyOwner(fs.FileInfo) error              { return nil }
