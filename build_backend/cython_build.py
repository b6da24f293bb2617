"""Compiles pyrmq/engine.pyx in place. Run by backend.py in a process of its own, because
setuptools keeps state and looks at the command line."""

from Cython.Build import cythonize
from setuptools import Extension
from setuptools.dist import Distribution


def main() -> None:
    extension = Extension(
        "pyrmq.engine",
        ["pyrmq/engine.pyx"],
        include_dirs=["native/include"],
        extra_compile_args=["-O3"],
    )
    modules = cythonize([extension], build_dir="build/cython", quiet=True)
    dist = Distribution({"name": "pyrmq-engine", "ext_modules": modules, "packages": ["pyrmq"]})
    command = dist.get_command_obj("build_ext")
    command.inplace = True
    command.build_temp = "build/temp"
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    main()
