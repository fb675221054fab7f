# syntax=docker/dockerfile:1
# sqb with Spark, Java and all jars in it: a container needs no network but the one to its catalog and its storage.
#
#   docker build -t sqb .
#   docker run --rm -v "$PWD:/project" sqb build --target prod
#
# The project is mounted at /project. The user of the container must be able to write its .sqb folder, and with the
# embedded catalog also lake/: `--build-arg UID="$(id -u)"` gives it the number of yours. Spark runs for no user that
# the image does not know, so `docker run --user` is not enough.

ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS base
# Debian takes old versions out of its archive when it mends them, so a fixed one would soon not be found.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s "/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture)" /usr/lib/jvm/java-17
ENV JAVA_HOME=/usr/lib/jvm/java-17 \
    PYTHONUNBUFFERED=1

FROM base AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/sqb
# What changes seldom comes first: sqb's own code is a layer of its own.
COPY requirements-image.lock ./
# setuptools comes before the rest: PySpark is built with it, and nothing is fetched beside the lock.
RUN awk '/^setuptools==/ { found = 1 } found { print } found && !/\\$/ { exit }' requirements-image.lock > tools.txt \
    && /opt/sqb/bin/pip install --require-hashes --no-deps --requirement tools.txt \
    && /opt/sqb/bin/pip install --require-hashes --no-deps --no-build-isolation --requirement requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# The pages of errors: `src/sqb/errors/pages` leads here.
COPY docs/errors ./docs/errors
RUN /opt/sqb/bin/pip install --no-deps --no-build-isolation . \
    && /opt/sqb/bin/pip uninstall --yes setuptools
COPY scripts/prepare_spark.py ./
# Jars are kept below the home of whoever fetches them; with the archive of classes, Spark starts in half the time.
ENV HOME=/home/sqb
RUN mkdir -p "$HOME" && /opt/sqb/bin/python prepare_spark.py --image

FROM base
ARG UID=10001
RUN useradd --uid "${UID}" --user-group --home-dir /home/sqb --no-create-home sqb
COPY --from=build /opt/sqb /opt/sqb
COPY --from=build --chown=${UID} /home/sqb /home/sqb
ENV HOME=/home/sqb \
    PATH=/opt/sqb/bin:$PATH
WORKDIR /project
USER ${UID}
# tini ends what sqb leaves behind, and lets `docker stop` reach it: the build stops cleanly, and the next one goes on.
ENTRYPOINT ["tini", "--", "sqb"]
CMD ["--help"]
