// Package publicfiles opens the directories for clients that do not log in (over TFTP and HTTP),
// and reads the rules for these clients.
package publicfiles

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// Files holds the directories for clients that do not log in, and the rules for them.
type Files struct {
	cfg     *settings.Config
	sources *source.Set

	Site          *site.Site // combines the directories and the rules
	reads, writes []string   // absolute paths of the directories that clients read from, and write to
	roots         []*os.Root
	uploads       []*localdir.Dir
	small         *localdir.SmallFiles // keeps small files open for the next reader; may be nil
}

// Open opens the directories and reads the rules. Up to small.Max small files stay open for the
// next reader; if small is nil, no files stay open.
func Open(cfg *settings.Config, env *service.Env, small *localdir.SmallFiles) (*Files, error) {
	s := &Files{cfg: cfg, sources: &env.Sources, small: small, Site: &site.Site{FoldCase: cfg.Files.FoldCase, Upload: cfg.Files.Upload, Access: cfg.Files.Access, Opened: env.Requested}}
	if err := s.openRoots(); err != nil {
		s.Close()
		return nil, err
	}
	for _, files := range s.uploads {
		files.NoSync, files.Kept = cfg.NoFsync, env.Notifier.Kept
	}
	return s, nil
}

func (s *Files) openRoots() error {
	uploads, err := s.openUploads()
	if err != nil {
		return failure.InSetting("upload-dir", err)
	}
	add := func(setting failure.Flag, m site.Match, dirs []string) error {
		files, err := s.openDirs(dirs)
		s.Site.Roots = append(s.Site.Roots, site.Root{Match: m, Files: files, Uploads: uploads, PerClient: s.cfg.Files.PerClient, Shared: s.cfg.Files.Shared})
		return failure.InSetting(setting, err)
	}
	for _, r := range s.cfg.Files.Roots {
		if err := add("root", r.For, []string{r.Dir}); err != nil {
			return err
		}
	}
	if err := add("dirs", site.Match{}, s.cfg.Dirs); err != nil {
		return err
	}
	if s.cfg.Boot.Answer {
		if err := s.addBootFiles(); err != nil {
			return err
		}
	}
	if err := separate(s.cfg); err != nil {
		return err
	}
	return s.readRules()
}

// separate returns an error if the upload directory overlaps with a directory from which files are
// served.
func separate(cfg *settings.Config) error {
	if cfg.Files.UploadDir == "" {
		return nil
	}
	uploads := userroots.RealPath(cfg.Files.UploadDir)
	all := cfg.Directories()
	for _, dir := range append(cfg.Boot.LoaderDirs(cfg.Dirs[0]), all[:len(all)-1]...) {
		if source.Overlap(dir, cfg.Files.UploadDir) {
			return failure.Mistake("upload-dir", "%s %s: uploads could be read from %s; choose another", failure.Flag("upload-dir"), cfg.Files.UploadDir, dir)
		}
		if source.IsRemote(dir) || source.IsRemote(cfg.Files.UploadDir) {
			continue
		}
		served := userroots.RealPath(dir)
		if userroots.Within(uploads, served) {
			return failure.Mistake("upload-dir", "%s %s: it is in %s, from which it would be read; choose one outside", failure.Flag("upload-dir"), cfg.Files.UploadDir, dir)
		}
		if userroots.Within(served, uploads) {
			return failure.Mistake("upload-dir", "%s %s: %s is in it, so that uploads could be read; choose another", failure.Flag("upload-dir"), cfg.Files.UploadDir, dir)
		}
	}
	return nil
}

// readRules reads the rules that rewrite names, prepares the neighbour table, and checks the site.
func (s *Files) readRules() error {
	if s.cfg.Files.Map != "" {
		rules, err := ReadMap(s.cfg.Files.Map)
		if err != nil {
			return failure.InSetting("map", err)
		}
		s.Site.Map = rules
	}
	if s.Site.NeedsNeighbours() {
		table, err := site.KernelNeighbours()
		if err != nil {
			return failure.Usage.Errorf("hardware (MAC) addresses in %s, %s or %s: %w", failure.Flag("root"), failure.Flag("per-client"), failure.Flag("access"), err)
		}
		s.Site.Neighbours = table
	}
	if err := s.Site.Check(); err != nil {
		return failure.Usage.Wrap(err)
	}
	return nil
}

// ReadMap reads a file of rules that rewrite names.
func ReadMap(path string) (*remap.Rules, error) {
	text, err := smallfile.Read(path, remap.MaxFile)
	if err != nil {
		return nil, failure.Local.Errorf("read %s: %w", path, console.WithoutPath(err))
	}
	rules, err := remap.Parse(string(text))
	if err != nil {
		return nil, failure.Mistake("map", "map %s: %w", path, err)
	}
	return rules, nil
}

// openDirs opens directories, and joins them into one store that searches them in order.
func (s *Files) openDirs(dirs []string) (store.Store, error) {
	var layers []store.Store
	for i, dir := range dirs {
		writable := i == 0 && s.cfg.Files.Upload != site.UploadNone && s.cfg.Files.UploadDir == ""
		layer, err := s.openTree(dir, writable)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	files := layers[0]
	if len(layers) > 1 {
		files = store.Layers(layers...)
	}
	if s.cfg.Files.FoldCase {
		return store.FoldCase(files)
	}
	return files, nil
}

// openUploads opens the separate directory for uploads. It returns nil if no such directory is configured.
func (s *Files) openUploads() (store.Store, error) {
	if s.cfg.Files.UploadDir == "" {
		return nil, nil
	}
	return s.openTree(s.cfg.Files.UploadDir, true)
}

// openTree opens a directory or an upstream, restricted to the files that clients may see.
func (s *Files) openTree(dir string, writable bool) (store.Tree, error) {
	if t := s.sources.Tree(dir); t != nil {
		return s.shown(t), nil
	}
	files, err := s.openDir(dir, writable)
	if err != nil {
		return nil, err
	}
	return s.shown(files), nil
}

// shown returns a view of a directory without temporary files and, unless the setting Hidden is
// set, without names that begin with a dot: see [store.Visible].
func (s *Files) shown(files store.Tree) store.Tree {
	if s.cfg.Files.Hidden {
		return store.Finished(files)
	}
	return store.Visible(files)
}

func (s *Files) openDir(dir string, writable bool) (*localdir.Dir, error) {
	if dir == "" {
		return nil, failure.Usage.Errorf("the name of a directory is empty; use . for the current directory")
	}
	root, err := os.OpenRoot(dir)
	if _, notDir := netip.ParseAddr(dir); err != nil && notDir == nil {
		return nil, failure.Usage.Errorf("serve %s: there is no such directory; if it belongs to %s, write %s=%s", dir, failure.Flag("trace"), failure.Flag("trace"), dir)
	}
	if scheme, rest, ok := strings.Cut(dir, ":/"); err != nil && ok && source.IsRemote(scheme+"://"+rest) {
		return nil, failure.Usage.Errorf("serve %s: there is no such directory; write %s://%s for a URL", dir, scheme, strings.TrimLeft(rest, "/"))
	}
	if err != nil {
		return nil, failure.Local.Errorf("serve %s: %w", dir, console.WithoutPath(err))
	}
	s.roots = append(s.roots, root)
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, failure.Local.Errorf("serve %s: %w", dir, err)
	}
	files := localdir.New(root)
	// Hooks get no path with a symbolic link: see activity.Event.CheckPath.
	files.Path, files.LinksFromRoot, files.Small = userroots.RealPath(dir), true, s.small
	if writable {
		s.writes = append(s.writes, absolute)
		s.uploads = append(s.uploads, files)
	} else {
		s.reads = append(s.reads, absolute)
	}
	return files, nil
}

// SandboxPaths adds the directories that clients read from and write to.
func (s *Files) SandboxPaths(c *privilege.Confinement) {
	c.Read = append(c.Read, s.reads...)
	c.Write = append(c.Write, s.writes...)
}

// Close closes the directories.
func (s *Files) Close() {
	for _, r := range s.roots {
		_ = r.Close()
	}
}

// Maintain warns about directories in which uploads cannot be written. After that it removes the
// leftovers of interrupted uploads from time to time, until ctx ends. Call it when the process runs
// as its final user.
func (s *Files) Maintain(ctx context.Context, protocol string, say service.SayFunc) {
	service.WarnUnwritable(protocol, s.writes, say)
	service.SweepOften(ctx, say, func() (removed int, err error) {
		for _, files := range s.uploads {
			n, sweepErr := files.Sweep(ctx)
			removed, err = removed+n, errors.Join(err, sweepErr)
		}
		return removed, err
	})
}

// KeepSecret returns an error if the directories contain secrets.
func (s *Files) KeepSecret(all []userroots.Secret) error {
	for _, dirs := range [][]string{s.reads, s.writes} {
		if err := userroots.CheckApart(dirs, all); err != nil {
			return err
		}
	}
	return nil
}

// addBootFiles adds the boot files and menus to the served files.
func (s *Files) addBootFiles() error {
	var loaders []store.Store
	var served []*store.Store
	for _, dir := range s.cfg.Boot.LoaderDirs(s.cfg.Dirs[0]) {
		layer, err := s.openTree(dir, false)
		if err != nil {
			return failure.InSetting("boot-loaders", err)
		}
		loaders = append(loaders, layer)
	}
	for i := range s.Site.Roots {
		served = append(served, &s.Site.Roots[i].Files)
	}
	s.cfg.Boot.AddFiles(served, loaders)
	return nil
}
