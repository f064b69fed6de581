// Package notify combines the parts of a server that report what clients do: the audit log, the
// hashes of uploads, and the hooks.
package notify

import (
	"log/slog"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/audit"
	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/store/localdir"
)

// SHA256 is the value of [Settings.AuditHash] that turns hashes on.
const SHA256 = "sha256"

// Settings holds the settings of hooks and the audit log.
type Settings struct {
	// Hooks are programs to run, and URLs to post to, when clients have done something.
	Hooks []hooks.Hook

	// Audit is the file of the audit log; "" means that there is no audit log. If AuditHash is
	// [SHA256], the audit log and the hooks also receive the hashes of uploads.
	Audit, AuditHash string
}

// Wanted reports whether the actions of clients are recorded or trigger hooks.
func (s *Settings) Wanted() bool { return s.Audit != "" || len(s.Hooks) > 0 }

// Check checks the settings without opening anything. It calls `when` for each check, with the
// result, the setting and a message.
func (s *Settings) Check(when func(wrong bool, setting failure.Flag, format string, args ...any)) {
	when(len(s.Hooks) > 0 && !hooks.Supported, "hook", "%s: this system has no hooks", failure.Flag("hook"))
	when(len(s.Hooks) > hooks.MaxHooks, "hook", "%s: there are %d hooks, and %d are the most", failure.Flag("hook"), len(s.Hooks), hooks.MaxHooks)
	when(s.AuditHash != "" && s.AuditHash != SHA256, "audit-hash", "%s %s: choose %s", failure.Flag("audit-hash"), s.AuditHash, SHA256)
	when(s.AuditHash != "" && !s.Wanted(), "audit-hash", "%s goes with %s or %s: without them nobody learns of the hashes", failure.Flag("audit-hash"), failure.Flag("audit"), failure.Flag("hook"))
}

// HideProcess prevents the programs of hooks from reading the secrets of this process. Otherwise
// they could read its memory, because they run as the same user.
func (s *Settings) HideProcess() error {
	if len(s.Hooks) == 0 {
		return nil
	}
	return privilege.Hide()
}

// CheckFiles reads the keys of hooks, and checks that their programs exist.
func (s *Settings) CheckFiles() error {
	if err := hooks.CheckFiles(s.Hooks); err != nil {
		return &failure.Error{Kind: failure.Local, Setting: "hook", Err: err}
	}
	return nil
}

// Secrets returns the files that no client may access. They include the programs of hooks, because
// a client that can replace such a program controls what haul runs.
func (s *Settings) Secrets() (all []userroots.Secret) {
	if s.Audit != "" {
		all = append(all, userroots.Secret{Flag: "audit", What: "the audit log", Path: s.Audit})
	}
	for _, h := range s.Hooks {
		for _, path := range h.Files() {
			all = append(all, userroots.Secret{Flag: "hook", What: "a program of a hook, or an argument of it", Path: path})
		}
		if h.Key != "" {
			all = append(all, userroots.Secret{Flag: "hook", What: "the key of a hook", Path: h.Key})
		}
	}
	return all
}

// Announce prints the file of the audit log, and what each hook does.
func (s *Settings) Announce(say func(format string, args ...any)) {
	if s.Audit != "" {
		say("audit log: %s", s.Audit)
	}
	for _, h := range s.Hooks {
		say("hook: %s", h.Summary())
	}
}

// SandboxPaths adds the audit log.
func (s *Settings) SandboxPaths(c *privilege.Confinement) {
	if s.Audit != "" {
		c.Logs = append(c.Logs, s.Audit)
	}
}

// mostKept is the maximum number of uploads that stay open until they are hashed. These uploads may
// also not use more than a sixteenth of the descriptors. Further uploads are opened again by their
// names, if the names still lead to them.
const mostKept = 1024

// A Notifier passes reports about what clients do to the audit log and the hooks.
type Notifier struct {
	// Report receives the reports of the protocols; nil if there are no hooks and no audit log.
	Report *activity.Reporter

	// Kept makes stores describe uploads, and keep open those that wait to be hashed. It is nil if
	// there are no hooks and no audit log.
	Kept *localdir.KeptUploads

	audit  *audit.Log
	hasher *audit.Hasher
	hooks  *hooks.Queue
}

// New returns a Notifier to which the protocols report. It drops all reports until Open.
func (s *Settings) New() (n Notifier) {
	if s.Wanted() {
		n.Report, n.Kept = new(activity.Reporter), new(localdir.KeptUploads)
	}
	if s.AuditHash != "" {
		n.Kept.Max = min(mostKept, int64(ownprocess.OpenFiles()/16))
	}
	return n
}

// Open opens the audit log, and starts the process that runs hooks. Call it before this process is
// confined, because then it can no longer start processes. The started process has the environment
// env, and becomes the given user; nil means that the user does not change. The caller closes the
// Notifier, even after an error.
func (n *Notifier) Open(s *Settings, env []string, user *privilege.User, log *slog.Logger) (err error) {
	if s.Audit != "" {
		var owners []int
		if user != nil {
			owners = append(owners, user.UID) // this user creates the new file after a rotation
		}
		if n.audit, err = audit.Open(s.Audit, log, owners...); err != nil {
			return &failure.Error{Kind: failure.Local, Setting: "audit", Err: err}
		}
		n.Report.Audit = n.audit.Add
	}
	if len(s.Hooks) > 0 {
		if n.hooks, err = hooks.Start(hooks.Config{Hooks: s.Hooks, User: user, Env: env, Log: log}); err != nil {
			return &failure.Error{Kind: failure.Local, Setting: "hook", Err: err}
		}
		n.Report.Hook = n.hooks.Send
	}
	if s.AuditHash != "" {
		n.hasher = audit.NewHasher()
		n.Report.Hash = n.hasher.Hash
	}
	return nil
}

// RegisterMetrics registers the counters.
func (n *Notifier) RegisterMetrics(r *meter.Registry) {
	n.hooks.RegisterMetrics(r)
	n.audit.RegisterMetrics(r)
	n.hasher.RegisterMetrics(r)
}

// Close computes the last hashes, and closes the hooks and the audit log. Call it when clients can
// no longer do anything.
func (n *Notifier) Close() {
	if left := n.hasher.Close(); left > 0 && n.audit != nil {
		n.audit.Add(activity.Event{Event: activity.Lost, Time: time.Now(), Lines: left})
	}
	n.hooks.Close()
	n.audit.Close()
}
