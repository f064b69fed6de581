package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
)

// These texts describe the default places of the users file and the host keys, for help texts.
const (
	UsersPlaces    = "$CONFIGURATION_DIRECTORY/users, /etc/haul/users for root, or ~/.config/haul/users"
	HostKeysPlaces = "$STATE_DIRECTORY, /var/lib/haul for root, or ~/.local/state/haul"
)

// DefaultUsersFile returns the default users file, which need not exist.
func DefaultUsersFile() (string, error) {
	dir, err := ownDir("CONFIGURATION_DIRECTORY", "/etc/haul", "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", failure.Mistake("users", "%w; name the users file by %s FILE", err, failure.Flag("users"))
	}
	return filepath.Join(dir, "users"), nil
}

// StateDir returns the default directory of host keys and certificates. If the system has no such
// directory, the error asks the administrator to set `setting`. For that message, `what` describes
// the content of the directory, and `value` is a placeholder for the value of the setting, such as
// DIR.
func StateDir(setting failure.Flag, what, value string) (string, error) {
	dir, err := ownDir("STATE_DIRECTORY", "/var/lib/haul", "XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", failure.Mistake(setting, "%w; name %s by %s %s", err, what, setting, value)
	}
	return dir, nil
}

// ownDir returns a directory for haul: the first directory in the variable `systemd`
// (systemd.exec(5)), or otherwise `root` if this process runs as root, or otherwise the directory
// of the XDG base directory specification.
func ownDir(systemd, root, xdg, below string) (string, error) {
	if first, _, _ := strings.Cut(os.Getenv(systemd), ":"); first != "" {
		return first, nil
	}
	if os.Geteuid() == 0 {
		return root, nil
	}
	// The specification says that relative paths must be ignored.
	if dir := os.Getenv(xdg); filepath.IsAbs(dir) {
		return filepath.Join(dir, "haul"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("there is no home directory ($HOME is not set)")
	}
	return filepath.Join(home, below, "haul"), nil
}

// Secrets returns the files that clients may not access, and that belong to no single service.
// Clients who could replace such a file would control the server after its next reload.
func (cfg *Config) Secrets() (all []userroots.Secret) {
	for _, s := range []userroots.Secret{
		{Flag: "config", What: "the configuration", Path: cfg.File},
		{Flag: "cache", What: "the cache", Path: cfg.Cache.Dir},
		{Flag: "map", What: "the rules that rewrite names", Path: cfg.Files.Map},
		{Flag: "pcap", What: "the file of recorded packets", Path: cfg.Trace.Pcap},
		{Flag: "cert", What: "the certificate", Path: cfg.HTTP.Cert},
		{Flag: "status-cert", What: "the certificate of the status page", Path: cfg.Status.Cert},
	} {
		if s.Path != "" {
			all = append(all, s)
		}
	}
	return all
}

// UsersFile returns the path of the users file, or "" if no users file is configured.
func (cfg *SFTP) UsersFile() (string, error) {
	if cfg.Users != "" {
		return filepath.Abs(cfg.Users)
	}
	file, err := DefaultUsersFile()
	if err != nil {
		return "", nil // not an error: the system just has no default directory
	}
	// Only a missing file means that there are no users. If the file exists but cannot be read,
	// return the path, so that opening it fails: the administrator relies on the file.
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}
