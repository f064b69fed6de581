package peer

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// installer is the script that fetches and builds everything that Find looks for.
const installer = "scripts/install-bench-peers"

// versionTime is how long a program may take to print its version.
const versionTime = 5 * time.Second

// maxParents is the number of parent directories in which BinDir looks for the directory bin.
const maxParents = 4

// BinDir returns the repository's directory of built and fetched programs, relative to the working
// directory: bin in the working directory or in a parent of it. If no such directory exists, it
// returns "bin".
func BinDir() string {
	dir := "bin"
	for range maxParents {
		for _, inside := range []string{"peers", "haul"} {
			if _, err := os.Stat(filepath.Join(dir, inside)); err == nil {
				return dir
			}
		}
		dir = filepath.Join("..", dir)
	}
	return "bin"
}

// Find looks for every program with a recipe: for haul in binDir, for the peers in binDir/peers, or
// else where the machine has them installed. Running each program to print its version takes some
// tens of milliseconds.
func Find(binDir string) Set {
	f := newFinder(binDir)
	f.haul()
	f.floors()
	f.hpa()
	f.atftpd()
	f.dnsmasq()
	f.pinTFTP()
	f.rsTFTPD()
	f.rTFTPD()
	f.goServer()
	f.tftpdGo()
	f.clients()
	f.pairs(filepath.Join(binDir, "haul"))
	f.streams(filepath.Join(binDir, "haul"))
	f.tool("iperf3", "iperf3", "--version")
	return f.set
}

// A finder collects a Set.
type finder struct {
	bin, peers string
	set        Set
}

func newFinder(binDir string) *finder {
	f := finder{bin: binDir, peers: filepath.Join(binDir, "peers")}
	if abs, err := filepath.Abs(f.peers); err == nil {
		f.peers = abs // absolute, because a server may start in another working directory
	}
	return &f
}

func (f *finder) add(s ...Server) {
	for i := range s {
		if s[i].Build == "" {
			s[i].Build = program{path: s[i].Path}.build()
		}
	}
	f.set.Servers = append(f.set.Servers, s...)
}

func (f *finder) absent(why string, names ...string) {
	for _, name := range names {
		f.set.Absent = append(f.set.Absent, Absentee{name, why})
	}
}

// A program is an executable file that was found: its path, and the environment variables that it
// needs.
type program struct {
	path string
	env  []string
}

// built returns the program at a path below the directory of the peers. If the program is missing,
// built records the named recipes as absent.
func (f *finder) built(path string, names ...string) (program, bool) {
	p, err := f.program(path)
	if err != nil {
		f.absent(err.Error(), names...)
	}
	return p, err == nil
}

// program returns the program at a path below the directory of the peers.
func (f *finder) program(path string) (program, error) {
	p, err := runnable(filepath.Join(f.peers, path))
	if err != nil {
		return program{}, fmt.Errorf("%s cannot be run: %w; %s builds it, and says why if it cannot", path, unwrap(err), installer)
	}
	return p, nil
}

// runnable returns the program at a path, after making the path absolute. It returns an error if
// the file is not executable.
func runnable(path string) (program, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(abs)
	}
	return program{path: abs}, err
}

// packaged returns a program of a Debian package. If the program is missing, packaged records the
// wanted recipes as absent.
func (f *finder) packaged(pkg, name string, wanted ...string) (program, bool) {
	p, err := f.unpacked(pkg, name)
	if err != nil {
		f.absent(err.Error(), wanted...)
	}
	return p, err == nil
}

// unpacked returns a program of an unpacked Debian package, or else the program with this name that
// is installed on the machine. It also looks in the directories of daemons, which are not in a
// user's PATH.
func (f *finder) unpacked(pkg, name string) (program, error) {
	dir := filepath.Join(f.peers, pkg)
	path := []string{dir + "/usr/bin", dir + "/usr/sbin"}
	path = append(path, filepath.SplitList(os.Getenv("PATH"))...)
	for _, d := range append(path, "/usr/sbin", "/sbin") {
		if file, err := exec.LookPath(filepath.Join(d, name)); err == nil {
			p := program{path: file}
			if strings.HasPrefix(file, dir) {
				p.env = libraries(dir)
			}
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%s is neither in package %s among the peers nor on this machine; %s fetches it", name, pkg, installer)
}

// libraries returns the environment variables with which a program finds the libraries that were
// unpacked with it.
func libraries(dir string) []string {
	var libs []string
	for _, pattern := range []string{"/usr/lib/*-linux-gnu*", "/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(dir + pattern) // fails only if the pattern is malformed
		libs = append(libs, found...)
	}
	if len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// number matches a version number, such as 2.90 or 1.2.3-rc1.
var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[-\w.]*`)

// output returns the output of a program on both streams, whether the program succeeds or fails.
func (p program) output(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	// Several programs exit with 1 after printing their version.
	out, _ := command(ctx, nil, p.env, p.path, args...).CombinedOutput()
	return string(out)
}

// flags returns the help text of one of haul's commands, with all of its flags. Older builds have
// no --help-all; their --help prints all flags.
func (p program) flags(command string) string {
	help := p.output(command, "--help-all")
	if !strings.Contains(help, "Usage:") {
		help = p.output(command, "--help")
	}
	return help
}

// version returns the version number in a program's output, or "" if the output contains none.
func (p program) version(args ...string) string {
	return number.FindString(p.output(args...))
}

// compiler returns the version of Go that a program was built with.
func (p program) compiler() string {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return "built by another Go"
	}
	return info.GoVersion
}

// modules returns the modules that a program was built from.
func (p program) modules() []*debug.Module {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return nil
	}
	return info.Deps
}

// buildDigits is the number of hexadecimal digits of a hash by which builds are distinguished.
const buildDigits = 12

// build returns the beginning of a program's SHA-256. It is needed because two builds of a changed
// tree have the same version.
func (p program) build() string {
	f, err := os.Open(p.path)
	if err != nil {
		return "" // a program may be executable without being readable
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))[:buildDigits]
}

// unwrap returns the reason why a program cannot be run, without its path: paths are local to
// this machine, but results are for others too.
func unwrap(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err
}

func (f *finder) tool(pkg, name, versionFlag string) {
	if p, ok := f.packaged(pkg, name, name); ok {
		f.set.Tools = append(f.set.Tools, Tool{Name: name, Version: p.version(versionFlag), Path: p.path, env: p.env})
	}
}
