// Bench measures haul and its peers in one run, alternately, over loopback.
//
//	cd bench && go run . -haul ../bin/haul -tftpd ../bin/peers/tftpd-hpa/usr/sbin/in.tftpd
//
// The load generator is haul's own client, the same for every server, and
// checks every byte. The server's CPU time counts user and system time of the
// server and all its children. Since the load generator shares the machine,
// compare ratios within one run, never figures of two runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

func main() {
	haul := flag.String("haul", "../bin/haul", "haul's `binary`")
	tftpd := flag.String("tftpd", "../bin/peers/tftpd-hpa/usr/sbin/in.tftpd", "tftpd-hpa's `binary`")
	before := flag.String("before", "", "another `binary` of haul, to compare with")
	rounds := flag.Int("rounds", 7, "how often each server gets each load")
	out := flag.String("out", "", "append the raw results to this `file`, as JSON lines")
	flag.Parse()
	if err := run(*haul, *before, *tftpd, *rounds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(haul, before, tftpd string, rounds int, out string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "haul-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays behind is temporary
	// in.tftpd gives up root for nobody, who must be able to write here.
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	files, err := makeFiles(dir)
	if err != nil {
		return err
	}
	servers := []server{haulServer("haul", haul), haulServer("haul, one port", haul, "--single-port"), hpaServer(tftpd)}
	if before != "" {
		servers = append(servers, haulServer("haul before", before))
	}
	var results []result
	for round := range rounds {
		for _, l := range loads {
			for _, s := range servers {
				r, err := measure(ctx, s, l, dir, files)
				if err != nil {
					return fmt.Errorf("round %d, %s, %s: %w", round, s.name, l.name, err)
				}
				r.Round = round
				results = append(results, r)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, rounds)
	}
	fmt.Print(table(servers, results))
	if out == "" {
		return nil
	}
	return save(out, results)
}

// measure starts a server, gives it a load, and stops it.
func measure(ctx context.Context, s server, l load, dir string, files map[int][]byte) (result, error) {
	p, err := s.start(dir)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	if err := l.run(ctx, p.addr, files, true); err != nil { // warm up: page cache, first allocations
		return result{}, err
	}
	cpu, began := p.cpu(), time.Now()
	if err := l.run(ctx, p.addr, files, false); err != nil {
		return result{}, err
	}
	took := time.Since(began)
	spent, err := p.settledCPU(cpu)
	if err != nil {
		return result{}, err
	}
	bytes := int64(l.files) * int64(l.size)
	packets := int64(l.files) * int64(l.size/l.block()+1)
	return result{
		Server: s.name, Version: s.version, Load: l.name,
		Seconds: took.Seconds(), MBps: float64(bytes) / 1e6 / took.Seconds(),
		CPUMicrosPerPacket: float64(spent.Microseconds()) / float64(packets),
		PacketsPerSecond:   float64(packets) / took.Seconds(),
		Machine:            machine(), Kernel: kernel(), Go: runtime.Version(), Commit: commit(),
		Time: time.Now().UTC().Format(time.RFC3339), CPUSource: p.meter.name(),
	}, nil
}

func machine() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), model)
}

func kernel() string { return output("uname", "-sr") }
func commit() string { return output("git", "describe", "--always", "--dirty") }

// output returns what a command prints, or the empty string.
func output(name string, args ...string) string {
	b, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
