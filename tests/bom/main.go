// Command bom tells what procinsh is made of: the modules that are linked into the
// binary and the npm packages in its pages.
//
//	go run ./tests/bom           writes web/third_party/go.txt, the licences of the modules
//	go run ./tests/bom -check    fails when the file differs
//	go run ./tests/bom -sbom VERSION -time SECONDS    prints the parts as SPDX 2.3
//
// Run it in the repository root.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"time"
)

const noticesFile = "web/third_party/go.txt"

func main() {
	check := flag.Bool("check", false, "fail when "+noticesFile+" differs from what would be written")
	version := flag.String("sbom", "", "print the bill of materials of this version")
	seconds := flag.Int64("time", 0, "when it was made, since the Unix epoch")
	flag.Parse()
	if err := run(*check, *version, time.Unix(*seconds, 0)); err != nil {
		fmt.Fprintln(os.Stderr, "bom:", err)
		os.Exit(1)
	}
}

func run(check bool, version string, at time.Time) error {
	modules, err := linkedModules()
	if err != nil {
		return err
	}
	if version != "" {
		lock, err := os.ReadFile("web/package-lock.json")
		if err != nil {
			return err
		}
		packages, err := bundledPackages(lock)
		if err != nil {
			return err
		}
		text, err := spdx(version, at, append(modules, packages...))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	}
	want := notices(modules)
	got, err := os.ReadFile(noticesFile)
	if err == nil && bytes.Equal(got, want) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is not what is linked: run go run ./tests/bom and commit the result", noticesFile)
	}
	return os.WriteFile(noticesFile, want, 0o644)
}
