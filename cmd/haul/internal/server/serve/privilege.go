package serve

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// userToBecome looks up the user of --user. It returns nil if the user does not change. It is
// called with the other checks, before any socket is open.
func userToBecome(spec string) (*privilege.User, error) {
	if spec == "" {
		return nil, nil
	}
	u, err := privilege.LookUp(spec)
	if err != nil {
		return nil, failure.Mistake("user", "%s: %w", failure.Flag("user"), err)
	}
	return &u, nil
}

// mayBecome returns an error if this process lacks the right to become the user. "haul config
// check" does not call it, because it may run as another user than the server.
func mayBecome(user *privilege.User, cfg *settings.Config) error {
	if user == nil || cfg.Unconfined {
		return nil
	}
	if err := privilege.Allowed(*user); err != nil {
		return failure.Mistake("user", "%s: %w", failure.Flag("user"), err)
	}
	return nil
}

// ownUsers returns the IDs of the users that the server runs as: the user who started it, and the
// user it changes to, if any.
func ownUsers(become *privilege.User) []int {
	own := []int{os.Geteuid()}
	if become != nil {
		own = append(own, become.UID)
	}
	return own
}

// dropPrivileges drops the rights that the server no longer needs once everything is open: first
// access to files outside its directories, then root or capabilities. That cannot be undone, so
// after an error the process must exit.
//
// Confine is called first because it finds the directories by name, and the new user may not be
// able to reach them. If the system cannot confine a process, the server runs unconfined.
func dropPrivileges(user *privilege.User, sandbox privilege.Confinement, log *slog.Logger) error {
	for _, file := range sandbox.Logs {
		if others, err := privilege.Beside(file, user); err == nil && len(others) > 0 {
			log.Warn("audit: the log's directory has other files, which a bug in haul could overwrite; give the log a directory of its own",
				"directory", filepath.Dir(file), "files", len(others), "example", others[0])
		}
	}
	what, err := privilege.Confine(sandbox)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		return err
	default:
		log.Info("confined", "by", what)
	}
	switch {
	case user != nil:
		return privilege.Drop(*user)
	case os.Geteuid() == 0:
		log.Warn("running as root: a bug in haul would have root's rights; use --user NAME")
		return nil
	}
	if err := privilege.DropCapabilities(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
