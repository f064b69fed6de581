// Package notify assembles what a server reports of its clients to others: the audit log, the
// hashes of uploads, and the hooks.
package notify

import (
	"log/slog"
	"os"
	"path/filepath"
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

// SHA256 is the value of [Settings.AuditHash] that has hashes made.
const SHA256 = "sha256"

// Settings are those of hooks and the audit log.
type Settings struct {
	// Hooks are programs to run, and URLs to post to, when clients do something.
	Hooks []hooks.Hook

	// Audit is the file of the audit log; "" means none. With AuditHash, which is [SHA256],
	// it has the hashes of uploads, and hooks get them.
	Audit, AuditHash string
}

// Wanted reports whether somebody is to learn what clients do.
func (s *Settings) Wanted() bool { return s.Audit != "" || len(s.Hooks) > 0 }

// Check reports mistakes by when, which takes whether there is one, the setting and a message.
// It opens nothing.
func (s *Settings) Check(when func(wrong bool, setting failure.Flag, format string, args ...any)) {
	when(len(s.Hooks) > 0 && !hooks.Supported, "hook", "%s: this system has no hooks", failure.Flag("hook"))
	when(len(s.Hooks) > hooks.MaxHooks, "hook", "%s: there are %d hooks, and %d are the most", failure.Flag("hook"), len(s.Hooks), hooks.MaxHooks)
	when(s.AuditHash != "" && s.AuditHash != SHA256, "audit-hash", "%s %s: choose %s", failure.Flag("audit-hash"), s.AuditHash, SHA256)
	when(s.AuditHash != "" && !s.Wanted(), "audit-hash", "%s goes with %s or %s: without them nobody learns of the hashes", failure.Flag("audit-hash"), failure.Flag("audit"), failure.Flag("hook"))
}

// HideProcess keeps the programs of hooks, which run as the same user, from reading the secrets
// of this process.
func (s *Settings) HideProcess() error {
	if len(s.Hooks) == 0 {
		return nil
	}
	return privilege.Hide()
}

// CheckFiles reads the keys of hooks, and looks for their programs.
func (s *Settings) CheckFiles() error {
	if err := hooks.CheckFiles(s.Hooks); err != nil {
		return &failure.Error{Kind: failure.Local, Setting: "hook", Err: err}
	}
	return nil
}

// Secrets returns what no client may have: who can replace a program decides what haul runs.
func (s *Settings) Secrets() (all []userroots.Secret) {
	if s.Audit != "" {
		all = append(all, userroots.Secret{Flag: "audit", What: "the audit log", Path: s.Audit})
	}
	for _, h := range s.Hooks {
		for i, path := range h.Run {
			if info, err := os.Stat(path); i == 0 || err == nil && info.Mode().IsRegular() {
				all = append(all, userroots.Secret{Flag: "hook", What: "a program of a hook, or a file that it is given", Path: path})
			}
		}
		if h.Key != "" {
			all = append(all, userroots.Secret{Flag: "hook", What: "the key of a hook", Path: h.Key})
		}
	}
	return all
}

// Announce prints what is done when clients do something.
func (s *Settings) Announce(say func(format string, args ...any)) {
	if s.Audit != "" {
		say("audit log: %s", s.Audit)
	}
	for _, h := range s.Hooks {
		say("hook: %s", h.Summary())
	}
}

// SandboxPaths adds what they need of the file system once they are open.
func (s *Settings) SandboxPaths(c *privilege.Confinement) {
	if s.Audit != "" {
		c.Logs = append(c.Logs, filepath.Dir(s.Audit))
	}
}

// mostKept is how many uploads stay open until their hash is made, or a sixteenth of the
// descriptors. Of more the hash is made by their names, if they still have them.
const mostKept = 1024

// A Notifier hands on what clients do.
type Notifier struct {
	// Report takes what the protocols report; nil if nobody is to learn of it.
	Report *activity.Reporter

	// Kept are uploads that wait for their hash; nil if there are none.
	Kept *localdir.KeptUploads

	audit  *audit.Log
	hasher *audit.Hasher
	hooks  *hooks.Queue
}

// New returns what the protocols report to. Nothing comes of that before Open.
func (s *Settings) New() (n Notifier) {
	if s.Wanted() {
		n.Report = new(activity.Reporter)
	}
	if s.AuditHash != "" {
		n.Kept = &localdir.KeptUploads{Max: min(mostKept, int64(ownprocess.OpenFiles()/16))}
	}
	return n
}

// Open opens the audit log, and starts the process that runs hooks: while this one still may.
// That process has the environment, and becomes the user; nil is none. The caller closes the
// Notifier, also if there is an error.
func (n *Notifier) Open(s *Settings, env []string, user *privilege.User, log *slog.Logger) (err error) {
	if s.Audit != "" {
		if n.audit, err = audit.Open(s.Audit, log); err != nil {
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

// RegisterMetrics adds the counts.
func (n *Notifier) RegisterMetrics(r *meter.Registry) {
	n.hooks.RegisterMetrics(r)
	n.audit.RegisterMetrics(r)
	n.hasher.RegisterMetrics(r)
}

// Close ends it, once no client does anything.
func (n *Notifier) Close() {
	if left := n.hasher.Close(); left > 0 && n.audit != nil {
		n.audit.Add(activity.Event{Event: activity.Lost, Time: time.Now(), Lines: left})
	}
	n.hooks.Close()
	n.audit.Close()
}
